"""Have claims look at what is closed before they write, and pilots that get nothing wait for no disk."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0005_throttles_and_limits"),
    ]

    operations = [*LOAD]
