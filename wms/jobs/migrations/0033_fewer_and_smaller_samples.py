"""Samples of usage in a quarter of the bytes: 24 instead of 64, of two-byte numbers instead of four (ADR 63)."""

from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

#: NaN, which is larger than all numbers, is room for later samples; -1, or null, a value that was not measured. Rows keep
#: no room: the next sample of an attempt that still runs makes it.
_FUNCTIONS = """
    CREATE FUNCTION pg_temp.step_s(samples real[], step_s integer) RETURNS integer LANGUAGE sql IMMUTABLE AS $$
        SELECT coalesce(min(step), step_s)
          FROM (SELECT max(samples[place]) AS last FROM generate_series(1, cardinality(samples), 4) AS its (place)
                 WHERE samples[place] <> 'nan') AS newest,
               (SELECT step_s << times AS step FROM generate_series(0, 8) AS its (times)) AS possible
         WHERE last < 24 * step
    $$;
    CREATE FUNCTION pg_temp.code(amount real) RETURNS smallint LANGUAGE sql IMMUTABLE AS $$
        SELECT (CASE WHEN amount >= 0 THEN least(32767, round(1600 * ln(1 + amount::float8))) ELSE -1 END)::smallint
    $$;
    CREATE FUNCTION pg_temp.codes(samples real[], step_s integer) RETURNS smallint[] LANGUAGE sql IMMUTABLE AS $$
        SELECT coalesce(array_agg(
                   CASE number WHEN 0 THEN floor(samples[place] * 1024 / step_s)::smallint
                               ELSE pg_temp.code(samples[place + number]) END
                   ORDER BY place, number
               ), '{}')
          FROM (SELECT min(place) AS place FROM generate_series(1, cardinality(samples), 4) AS its (place)
                 WHERE samples[place] <> 'nan' GROUP BY floor(samples[place] / step_s)) AS first_of_step,
               generate_series(0, 3) AS its (number)
    $$;
    CREATE FUNCTION pg_temp.amounts(codes smallint[], step_s integer) RETURNS real[] LANGUAGE sql IMMUTABLE AS $$
        SELECT coalesce(array_agg(
                   (CASE WHEN place % 4 = 1 THEN ceil(code * step_s / 1024.0)
                         WHEN code >= 0 THEN round(exp(code / 1600.0) - 1) ELSE -1 END)::real
                   ORDER BY place
               ), '{}')
          FROM unnest(codes) WITH ORDINALITY AS its (code, place) WHERE code <> -2
    $$;
"""
_FEWER = """
    ALTER TABLE jobs_usagesamples
        ALTER COLUMN step_s TYPE integer USING pg_temp.step_s(samples, step_s),
        ALTER COLUMN samples TYPE smallint[] USING pg_temp.codes(samples, pg_temp.step_s(samples, step_s))
"""
_BACK = "ALTER TABLE jobs_usagesamples ALTER COLUMN samples TYPE real[] USING pg_temp.amounts(samples, step_s)"
_NO_FUNCTIONS = """
    DROP FUNCTION pg_temp.step_s(real[], integer), pg_temp.codes(real[], integer), pg_temp.code(real),
        pg_temp.amounts(smallint[], integer)
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0032_submissions_in_their_order")]

    operations = [
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL([_FUNCTIONS, _FEWER, _NO_FUNCTIONS], [_FUNCTIONS, _BACK, _NO_FUNCTIONS])],
            [
                migrations.AlterField(
                    model_name="usagesamples",
                    name="samples",
                    field=ArrayField(
                        base_field=models.SmallIntegerField(),
                        help_text="Four numbers of each sample, as in ``domain.samples``, and room for later ones.",
                        size=None,
                    ),
                )
            ],
        )
    ]
