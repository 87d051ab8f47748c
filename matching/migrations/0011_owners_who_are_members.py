"""Have claims refuse jobs whose owner is no longer a member of their group."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("matching", "0010_unknown_places"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
