"""Install the functions: reports store the last lines of each attempt, and heartbeats samples of its usage (ADR 63)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_usage_samples"),
        ("matching", "0026_heartbeats_compress_output"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
