"""Have an ordinary heartbeat be one call of a function."""

from django.db import migrations

from matching.migrations._functions import LOAD


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0006_functions"),
    ]

    operations = [*LOAD]
