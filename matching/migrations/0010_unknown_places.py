"""Have the claim look at every place where a pilot may be whose queue is not known."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0009_shorter_heartbeat"),
        # Its tables.
        ("resources", "0007_ce_types_are_those_of_backends"),
        ("taskqueues", "0009_memberships_without_foreign_keys"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
