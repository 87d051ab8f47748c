"""Ids of leases are ordered by time, and heartbeats do not wait for the disk (ADR 58)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0019_fewer_indexes"),
        ("matching", "0021_descriptions_and_outputs_beside_jobs"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
