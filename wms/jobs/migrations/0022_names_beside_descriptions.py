"""Leave the name of a job out of the description that is stored for it (ADR 57).

Descriptions that are stored already keep the name: readers take that of the job. The version before this one reads
it in the description, so to go back puts it there.
"""

from django.db import migrations, models

_NAMED = "stored.description || jsonb_build_object('job_name', job.job_name)"
_PUT_NAMES_INTO_DESCRIPTIONS = [
    f"""
    INSERT INTO jobs_storeddescription (description)
    SELECT DISTINCT {_NAMED}
      FROM jobs_job AS job JOIN jobs_storeddescription AS stored ON stored.id = job.stored_description_id
     WHERE NOT stored.description ? 'job_name'
        ON CONFLICT (digest) DO NOTHING
    """,
    f"""
    UPDATE jobs_job AS job
       SET stored_description_id = named.id
      FROM jobs_storeddescription AS stored, jobs_storeddescription AS named
     WHERE stored.id = job.stored_description_id AND NOT stored.description ? 'job_name'
       AND named.digest = sha256(jsonb_send({_NAMED}))
    """,
]


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_jobs_on_hosts")]

    operations = [
        migrations.RunSQL(migrations.RunSQL.noop, _PUT_NAMES_INTO_DESCRIPTIONS),
        migrations.AlterField(
            model_name="storeddescription",
            name="description",
            field=models.JSONField(help_text="All fields but the job's name, in the form of the REST interface."),
        ),
    ]
