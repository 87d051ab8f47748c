"""Find the batch queues at which pilots did not start in time; there may be millions of pilots."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ("pilots", "0009_stalled_pilots_that_end"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="pilot",
            index=models.Index(
                condition=models.Q(("stalled_at__isnull", False)), fields=["stalled_at"], name="pilot_stalled_at"
            ),
        ),
    ]
