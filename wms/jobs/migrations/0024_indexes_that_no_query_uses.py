"""Drop an index that Django makes beside that of a unique text, and that no query uses.

The index of jobs at a site gets columns, so that they are counted without reading the jobs (ADR 59).
"""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0023_cheaper_changes")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS jobs_sandbox_digest_847f8706_like",
            "CREATE INDEX jobs_sandbox_digest_847f8706_like ON jobs_sandbox (digest varchar_pattern_ops)",
        ),
        migrations.RemoveIndex("Job", "job_of_its_kind_at_site"),
        migrations.AddIndex(
            "Job",
            models.Index(
                condition=models.Q(("site__isnull", False)),
                fields=["site", "owner", "group", "status", "id"],
                include=["submission", "exit_code"],
                name="job_of_its_kind_at_site",
            ),
        ),
    ]
