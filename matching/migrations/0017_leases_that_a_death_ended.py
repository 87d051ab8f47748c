"""Let a lease say that its pilot, or the pilot's process for the job, died while the payload ran."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("matching", "0016_held_back_jobs_by_functions_of_their_own")]

    operations = [
        migrations.AddField(
            model_name="match",
            name="died",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Whether it ended because the pilot, or the pilot's process for the job, died while the "
                "payload ran.",
            ),
        ),
    ]
