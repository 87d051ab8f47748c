"""An ordinary status report or end of a lease is one statement (ADR 60)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0021_jobs_on_hosts"),
        ("matching", "0023_jobs_on_hosts"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
