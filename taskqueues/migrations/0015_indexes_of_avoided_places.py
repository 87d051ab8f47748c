"""Have claims find what they may have of the jobs that are held back without reading those that avoid the place."""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Coalesce, Greatest


class Migration(migrations.Migration):
    atomic = False  # the indexes are made while jobs come and go

    dependencies = [("taskqueues", "0014_software_of_task_queues")]

    operations = [
        AddIndexConcurrently(
            model_name="queuedjob",
            index=models.Index(
                models.F("task_queue"),
                models.F("user_priority"),
                Coalesce("avoided_queue_ids", models.Value([], output_field=ArrayField(models.BigIntegerField()))),
                Coalesce("avoided_host", models.Value("")),
                models.F("not_before"),
                models.F("job_id"),
                condition=models.Q(is_held_back=True),
                name="queued_job_by_avoided_place",
            ),
        ),
        AddIndexConcurrently(
            model_name="queuedjob",
            index=models.Index(
                models.F("task_queue"),
                models.F("user_priority"),
                Greatest("not_before", "avoided_until"),
                models.F("job_id"),
                condition=models.Q(is_held_back=True),
                name="queued_job_open_to_all",
            ),
        ),
    ]
