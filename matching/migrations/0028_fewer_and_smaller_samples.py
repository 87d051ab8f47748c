"""Install the functions: samples of usage are fewer and smaller, and none is written for a job of a minute (ADR 63)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0033_fewer_and_smaller_samples"),
        ("matching", "0027_tails_and_samples_of_attempts"),
    ]

    # 0029 installs the functions.
    operations: list[Operation] = []
