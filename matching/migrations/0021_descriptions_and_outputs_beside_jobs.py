"""Descriptions and outputs of jobs are in tables of their own (ADR 57)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0018_narrow_jobs"),
        ("matching", "0020_claims_read_any_amount_of_the_slot"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
