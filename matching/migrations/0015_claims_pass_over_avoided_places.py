"""Have claims pass over all jobs that avoid the same place in one step."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0014_claims_lock_throttles"),
        ("taskqueues", "0015_indexes_of_avoided_places"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
