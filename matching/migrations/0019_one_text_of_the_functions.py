"""Wait for all tables that the functions read; the newest migration installs them (ADR 50)."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0010_invitations"),
        ("jobs", "0014_index_of_outputs"),
        ("kernel", "0001_database_clock"),
        ("matching", "0018_claims_within_the_slot"),
        ("pilots", "0014_pilots_that_died"),
        ("resources", "0018_registration_tokens_in_use_expire"),
        ("taskqueues", "0015_indexes_of_avoided_places"),
    ]

    # 0020 installs the functions.
    operations: list[Operation] = []
