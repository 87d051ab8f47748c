"""Have an ordinary heartbeat be one call of a function."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0006_functions"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
