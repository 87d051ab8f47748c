"""Note the labels and the stems of names of submissions whose jobs differ in them, if they are few (ADR 59).

The triggers that note contents are made anew; the contents that exist get their values.
"""

from importlib import import_module

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

_before = import_module("wms.jobs.migrations.0020_contents_of_submissions")

#: Values that are noted of one column of a submission, at most.
MOST = 16

#: A job that comes meanwhile would be noted by the triggers of before.
LOCK = "LOCK TABLE jobs_job IN SHARE ROW EXCLUSIVE MODE"

FEW = f"""
-- Different texts in their order; none if there are too many to be noted.
CREATE FUNCTION wms_few(texts text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN count(*) BETWEEN 1 AND {MOST} THEN array_agg(each ORDER BY each COLLATE "C") ELSE '{{}}' END
      FROM (SELECT DISTINCT each FROM unnest(texts) AS each) AS different
$$;
CREATE FUNCTION wms_few_of_both(one text[], other text[]) RETURNS text[] LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN '{{}}' IN (one, other) THEN '{{}}' ELSE wms_few(one || other) END
$$;
"""
DROP_FEW = "DROP FUNCTION wms_few_of_both, wms_few"

COLUMNS = f"{_before.COLUMNS}, labels, name_stems"


def values_of(content: str, rows: str) -> tuple[str, str]:
    """Return expressions of the labels and of the stems of names of the jobs in *rows* that are of the content.

    Jobs that do not differ are not looked at again.
    """
    few = f"""
        wms_few(ARRAY(
            SELECT DISTINCT {{value}} FROM {rows} AS job WHERE job.submission_id = {content}.submission_id LIMIT {MOST + 1}
        ))
    """
    labels = few.format(value="job.job_group")
    stems = few.format(value="rtrim(job.job_name, '0123456789')")
    return (
        f"CASE WHEN {content}.job_group IS NULL THEN {labels} END",
        f"CASE WHEN {content}.name_rest = 'anything' THEN {stems} END",
    )


def common(rows: str) -> str:
    """Return the query of what jobs of one submission have in common, of the rows of a table of jobs."""
    of_jobs = _before.COMMON.format(rows=f"{rows} AS job")
    return f"SELECT common.*, {', '.join(values_of('common', rows))} FROM ({of_jobs}) AS common ({_before.COLUMNS})"


def note(rows: str) -> str:
    """Return the statement that adds rows of jobs to what is known of their submissions."""
    _, on_conflict = _before.NOTE.split(_before.COMMON)
    return f"""
    INSERT INTO jobs_submissioncontent AS known ({COLUMNS}) {common(rows)}
    {on_conflict},
       labels = CASE WHEN known.job_group = excluded.job_group THEN NULL ELSE wms_few_of_both(
           coalesce(known.labels, ARRAY[known.job_group]), coalesce(excluded.labels, ARRAY[excluded.job_group])
       ) END,
       name_stems = CASE
           WHEN 'anything' NOT IN (known.name_rest, excluded.name_rest)
                AND rtrim(known.name_prefix, '0123456789') = rtrim(excluded.name_prefix, '0123456789') THEN NULL
           ELSE wms_few_of_both(
               coalesce(known.name_stems, ARRAY[rtrim(known.name_prefix, '0123456789')]),
               coalesce(excluded.name_stems, ARRAY[rtrim(excluded.name_prefix, '0123456789')])
           ) END
    """


def functions(note_changed: str, note_edited: str, columns: str, common_of_all: str) -> str:
    """Return the functions of the triggers that note contents."""
    come = _before.TRIGGERS[: _before.TRIGGERS.index("CREATE FUNCTION wms_jobs_go")]
    come = come.replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION").replace(
        _before.NOTE.format(rows="changed"), note_changed
    )
    return f"""
    {come}
    CREATE OR REPLACE FUNCTION wms_note_all_contents() RETURNS void LANGUAGE sql AS $$
        DELETE FROM jobs_submissioncontent;
        INSERT INTO jobs_submissioncontent ({columns}) {common_of_all};
    $$;
    CREATE OR REPLACE FUNCTION wms_job_is_edited() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        {note_edited};
        RETURN NULL;
    END
    $$;
    """


FUNCTIONS = functions(note("changed"), note("(SELECT NEW.*)"), COLUMNS, common("jobs_job"))
FUNCTIONS_BEFORE = functions(
    _before.NOTE.format(rows="changed"),
    _before.NOTE.format(rows="(SELECT NEW.*) AS changed"),
    _before.COLUMNS,
    _before.COMMON.format(rows="jobs_job"),
)

#: Of the contents that exist.
_LABELS, _STEMS = values_of("content", "jobs_job")
FILL = f"""
UPDATE jobs_submissioncontent AS content SET labels = {_LABELS}, name_stems = {_STEMS}
 WHERE content.job_group IS NULL OR content.name_rest = 'anything'
"""


def _texts(what: str) -> "ArrayField[list[str] | None, list[str] | None]":
    return ArrayField(
        models.CharField(max_length=255),
        null=True,
        help_text=f"{what} of jobs that differ in them; empty: there are more than {MOST}.",
    )


class Migration(migrations.Migration):
    dependencies = [("jobs", "0034_sums_of_buckets")]

    operations = [
        migrations.RunSQL(LOCK, LOCK),
        migrations.AddField("SubmissionContent", "labels", _texts("Labels")),
        migrations.AddField("SubmissionContent", "name_stems", _texts("Names, without digits at their ends,")),
        migrations.RunSQL(FEW, DROP_FEW),
        migrations.RunSQL(FUNCTIONS, FUNCTIONS_BEFORE),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            "SubmissionContent",
            GinIndex(
                name="content_with_labels",
                fields=["labels"],
                fastupdate=False,
                condition=models.Q(labels__isnull=False),
            ),
        ),
        migrations.AddIndex(
            "SubmissionContent",
            GinIndex(
                name="content_with_name_stems",
                fields=["name_stems"],
                fastupdate=False,
                condition=models.Q(name_stems__isnull=False),
            ),
        ),
    ]
