"""Let a job that stands in no queue carry when and where it may be matched again (ADR 33)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0009_software_of_jobs_that_wait")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="held_back",
            field=models.JSONField(
                editable=False,
                help_text="While it is Held or Checking: when and where it may be matched after that.",
                null=True,
            ),
        ),
    ]
