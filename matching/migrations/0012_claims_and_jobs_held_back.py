"""Have claims pass over jobs that are held back: they were given back, and wait for a time or for other places."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0011_owners_who_are_members"),
        ("taskqueues", "0012_index_of_jobs_held_back"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
