"""List the submissions of an owner in the order of their jobs: the index of the owner gets a column."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0031_saved_descriptions")]

    operations = [
        migrations.RemoveIndex("SubmissionContent", "content_of_owner"),
        migrations.AddIndex(
            "SubmissionContent", models.Index(fields=["owner", "first_job_id"], name="content_of_owner")
        ),
    ]
