"""Have claims pass over jobs that are held back: they were given back, and wait for a time or for other places."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0011_owners_who_are_members"),
        ("taskqueues", "0012_index_of_jobs_held_back"),
    ]

    operations = [*LOAD]
