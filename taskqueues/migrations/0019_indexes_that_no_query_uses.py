"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("taskqueues", "0018_counts_of_waiting_jobs")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS taskqueues_submitpool_id_8ffd1f9e_like",
            "CREATE INDEX taskqueues_submitpool_id_8ffd1f9e_like ON taskqueues_submitpool (id varchar_pattern_ops)",
        ),
    ]
