"""A claim gets the id of its lease, and writes the pilot's row only if that says something new."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0024_indexes_that_no_query_uses"),
        ("matching", "0024_ordinary_reports"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
