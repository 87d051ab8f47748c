"""Have heartbeats write the job's row once, and say themselves whose lease it is."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("matching", "0008_drained_pilots_and_black_holes")]

    operations = []  # functions are installed by the newest migration that changed one (ADR 50)
