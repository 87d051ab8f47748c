"""Find the jobs whose output a sandbox is, before it is removed."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the index is made while jobs go on

    dependencies = [("jobs", "0012_use_of_sandboxes")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(("output_sandbox__isnull", False)),
                fields=["output_sandbox"],
                name="job_of_output_sandbox",
            ),
        ),
    ]
