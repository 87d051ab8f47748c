"""Have claims pass over all jobs that avoid the same place in one step."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0014_claims_lock_throttles"),
        ("taskqueues", "0015_indexes_of_avoided_places"),
    ]

    operations = [*LOAD]
