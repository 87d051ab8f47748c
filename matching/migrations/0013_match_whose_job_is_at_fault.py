"""Let a lease say that what ended it is what its job asks for, which tells nothing of the node."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("matching", "0012_claims_and_jobs_held_back")]

    operations = [
        migrations.AddField(
            model_name="match",
            name="job_at_fault",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Whether it ended because the node lacks what the job itself requires.",
            ),
        ),
    ]
