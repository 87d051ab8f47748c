"""Find the jobs that a quota of waiting jobs keeps out of their queues, which are looked for every few seconds."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the index is made while jobs go on

    dependencies = [
        ("jobs", "0006_jobs_that_waited_before"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=models.Index(
                condition=models.Q(
                    ("minor_status", "Waits for room in a quota of waiting jobs"), ("status", "Checking")
                ),
                fields=["group", "owner", "job_type", "id"],
                name="job_that_waits_for_room",
            ),
        ),
    ]
