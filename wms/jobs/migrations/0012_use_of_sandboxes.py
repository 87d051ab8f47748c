"""Note when to look whether sandboxes are needed, and which uploads are outputs of jobs."""

from django.db import migrations, models
from django.utils import timezone

#: Those that exist are looked at after the default of WMS_SANDBOX_GRACE_S: nothing goes with the upgrade itself.
FILL = r"""
UPDATE jobs_sandbox SET check_use_at = now() + interval '1 day';
UPDATE jobs_sandboxupload SET is_output = true WHERE file_name ~ '^job-[0-9]+-output\.tar\.gz$';
"""


class Migration(migrations.Migration):
    dependencies = [("jobs", "0011_composed_names")]

    operations = [
        migrations.AddField(
            model_name="sandbox",
            name="check_use_at",
            field=models.DateTimeField(db_index=True, default=timezone.now, help_text="Next check whether it is used."),
        ),
        migrations.AddField(
            model_name="sandboxupload",
            name="is_output",
            field=models.BooleanField(
                default=False, help_text="Of a job, stored by its pilot; not in the user's quota."
            ),
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
