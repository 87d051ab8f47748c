"""Have jobs that are held back stand apart in the index that claims read."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # the index is made while jobs come and go

    dependencies = [("taskqueues", "0011_jobs_that_are_held_back")]

    operations = [
        AddIndexConcurrently(
            model_name="queuedjob",
            index=models.Index(
                fields=["task_queue", "user_priority", "is_held_back", "job_id"], name="queued_job_oldest_of_its_kind"
            ),
        ),
        RemoveIndexConcurrently(model_name="queuedjob", name="queued_job_oldest_of_level"),
    ]
