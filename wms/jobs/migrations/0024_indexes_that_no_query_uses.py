"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_jobs_on_hosts")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS jobs_sandbox_digest_847f8706_like",
            "CREATE INDEX jobs_sandbox_digest_847f8706_like ON jobs_sandbox (digest varchar_pattern_ops)",
        ),
    ]
