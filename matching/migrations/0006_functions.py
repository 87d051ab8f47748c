"""Have claims look at what is closed before they write, and sums of limits wait for who changes or removes them."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0005_throttles_and_limits"),
    ]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
