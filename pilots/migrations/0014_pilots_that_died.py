"""Let a pilot say that it died, for the count of deaths while the same payload ran."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("pilots", "0013_composed_job_types")]

    operations = [
        migrations.AddField(
            model_name="pilot",
            name="died",
            field=models.BooleanField(
                db_default=False,
                default=False,
                editable=False,
                help_text="Whether it ended as if killed, though neither its batch system nor the server killed it.",
            ),
        ),
    ]
