"""The last lines of each attempt of a job, of standard output and standard error (ADR 63)."""

import django.db.models.deletion
from django.db import migrations, models

from wms.kernel.fields import CompressedTextField

#: In place: a column with a constant default does not rewrite the table, and few jobs were rescheduled. A job that is
#: Rescheduled is still in the attempt before.
_BY_ATTEMPT = [
    """
    ALTER TABLE jobs_outputtail
        DROP CONSTRAINT jobs_outputtail_pkey,
        ADD COLUMN attempt smallint NOT NULL DEFAULT 0,
        ADD COLUMN std_error bytea
    """,
    "ALTER TABLE jobs_outputtail RENAME COLUMN text TO std_output",
    """
    UPDATE jobs_outputtail AS tail
       SET attempt = job.reschedules - (job.status = 'Rescheduled')::integer
      FROM jobs_job AS job
     WHERE job.id = tail.job_id AND job.reschedules > (job.status = 'Rescheduled')::integer
    """,
    """
    ALTER TABLE jobs_outputtail
        ALTER COLUMN attempt DROP DEFAULT,
        ALTER COLUMN std_output DROP NOT NULL,
        ADD CONSTRAINT jobs_outputtail_pkey PRIMARY KEY (job_id, attempt)
    """,
]
#: The version before shows the lines of the present attempt, and has no standard error.
_BY_JOB = [
    """
    DELETE FROM jobs_outputtail AS tail
     USING jobs_job AS job
     WHERE job.id = tail.job_id
       AND (
           tail.std_output IS NULL
           OR tail.attempt <> greatest(0, job.reschedules - (job.status = 'Rescheduled')::integer)
       )
    """,
    "ALTER TABLE jobs_outputtail DROP CONSTRAINT jobs_outputtail_pkey",
    "ALTER TABLE jobs_outputtail RENAME COLUMN std_output TO text",
    """
    ALTER TABLE jobs_outputtail
        ALTER COLUMN text SET NOT NULL,
        DROP COLUMN attempt,
        DROP COLUMN std_error,
        ADD CONSTRAINT jobs_outputtail_pkey PRIMARY KEY (job_id)
    """,
]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0026_stream_of_changes")]

    operations = [
        # Django does not migrate a table to a composite primary key.
        migrations.SeparateDatabaseAndState(
            [migrations.RunSQL(_BY_ATTEMPT, _BY_JOB)],
            [
                migrations.DeleteModel("OutputTail"),
                migrations.CreateModel(
                    name="OutputTail",
                    fields=[
                        (
                            "pk",
                            models.CompositePrimaryKey(
                                "job_id", "attempt", blank=True, editable=False, primary_key=True, serialize=False
                            ),
                        ),
                        (
                            "attempt",
                            models.SmallIntegerField(
                                help_text="Number of times that the job had been rescheduled; the first is 0."
                            ),
                        ),
                        (
                            "std_output",
                            CompressedTextField(
                                help_text="Last lines of standard output; null: none were sent.", null=True
                            ),
                        ),
                        (
                            "std_error",
                            CompressedTextField(
                                help_text="Last lines of standard error; null: none were sent.", null=True
                            ),
                        ),
                        (
                            "job",
                            models.ForeignKey(
                                db_constraint=False,
                                db_index=False,
                                on_delete=django.db.models.deletion.CASCADE,
                                related_name="output_tails",
                                to="jobs.job",
                            ),
                        ),
                    ],
                ),
            ],
        ),
    ]
