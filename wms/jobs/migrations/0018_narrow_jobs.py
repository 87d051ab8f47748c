"""Move descriptions, each stored once, and outputs out of the rows of jobs, which change often (ADR 57).

The rows of jobs are rewritten once, so that they are small at once.
"""

import django.contrib.postgres.indexes
import django.db.models.deletion
import django.db.models.fields.json
from django.db import migrations, models

_NARROW = [
    # Those known already are left out before anything is written; sorting all descriptions would take much more space.
    "INSERT INTO jobs_storeddescription (description) SELECT description FROM jobs_job ON CONFLICT (digest) DO NOTHING",
    "INSERT INTO jobs_outputtail (job_id, text) SELECT id, std_output_tail FROM jobs_job WHERE std_output_tail <> ''",
    """
    CREATE TEMPORARY TABLE description_of_job ON COMMIT DROP AS
    SELECT job.id AS job_id, stored.id AS stored_id
      FROM jobs_job AS job
      JOIN jobs_storeddescription AS stored ON stored.digest = sha256(jsonb_send(job.description))
    """,
    "ALTER TABLE description_of_job ADD PRIMARY KEY (job_id)",
    """
    CREATE FUNCTION pg_temp.description_of(the_job bigint) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
    BEGIN
        RETURN (SELECT stored_id FROM description_of_job WHERE job_id = the_job);
    END
    $$
    """,
    """
    ALTER TABLE jobs_job
        DROP COLUMN description, DROP COLUMN std_output_tail, ADD COLUMN stored_description_id bigint
    """,
    # Rewrites the table, without the dropped columns; an UPDATE would leave a dead row for each.
    """
    ALTER TABLE jobs_job
        ALTER COLUMN stored_description_id TYPE bigint USING pg_temp.description_of(id),
        ALTER COLUMN stored_description_id SET NOT NULL
    """,
    "DROP FUNCTION pg_temp.description_of",
    "DROP TABLE description_of_job",
]
_WIDEN = [
    "ALTER TABLE jobs_job ADD COLUMN description jsonb, ADD COLUMN std_output_tail text NOT NULL DEFAULT ''",
    # One statement: a second one would have to check the foreign keys of the rows that the first has written.
    """
    UPDATE jobs_job AS job
       SET description = stored.description || jsonb_build_object('job_name', job.job_name),
           std_output_tail = coalesce((SELECT tail.text FROM jobs_outputtail AS tail WHERE tail.job_id = job.id), '')
      FROM jobs_storeddescription AS stored WHERE stored.id = job.stored_description_id
    """,
    """
    ALTER TABLE jobs_job
        ALTER COLUMN description SET NOT NULL, ALTER COLUMN std_output_tail DROP DEFAULT,
        DROP COLUMN stored_description_id
    """,
]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_kinds_of_jobs")]

    operations = [
        migrations.CreateModel(
            name="StoredDescription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "description",
                    models.JSONField(help_text="All fields of the description, in the form of the REST interface."),
                ),
                (
                    "digest",
                    models.GeneratedField(
                        db_persist=True,
                        expression=models.Func(
                            models.Func(models.F("description"), function="jsonb_send"), function="sha256"
                        ),
                        help_text="SHA-256 of the description.",
                        output_field=models.BinaryField(max_length=32),
                        unique=True,
                    ),
                ),
            ],
            options={
                "indexes": [
                    django.contrib.postgres.indexes.GinIndex(
                        django.db.models.fields.json.KeyTransform("input_data", "description"),
                        condition=models.Q(("description__input_data__0__isnull", False)),
                        name="description_of_input_file",
                    )
                ]
            },
        ),
        migrations.CreateModel(
            name="OutputTail",
            fields=[
                (
                    "job",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="output_tail",
                        serialize=False,
                        to="jobs.job",
                    ),
                ),
                ("text", models.TextField(blank=True, help_text="Last lines, as of the last heartbeat.")),
            ],
        ),
        migrations.RemoveIndex(model_name="job", name="job_of_input_file"),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(_NARROW, _WIDEN)],
            state_operations=[
                migrations.RemoveField(model_name="job", name="description"),
                migrations.RemoveField(model_name="job", name="std_output_tail"),
                migrations.AddField(
                    model_name="job",
                    name="stored_description",
                    field=models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        default=None,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="jobs",
                        to="jobs.storeddescription",
                    ),
                    preserve_default=False,
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="job",
            index=models.Index(
                condition=models.Q(("input_sites__isnull", False), ("status__in", ["Checking", "Waiting"])),
                fields=["stored_description"],
                name="job_of_stored_description",
            ),
        ),
    ]
