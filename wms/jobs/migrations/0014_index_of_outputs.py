from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the index is made while jobs go on

    dependencies = [("jobs", "0013_job_of_output_sandbox")]

    operations = [
        AddIndexConcurrently(
            model_name="sandboxupload",
            index=models.Index(condition=models.Q(("is_output", True)), fields=["file_name"], name="output_of_job"),
        ),
    ]
