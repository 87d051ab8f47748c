"""Answers to reports say whether the job moved, and which it is; the newest migration installs the texts (ADR 50)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("matching", "0003_changes_of_leases")]
    operations = []
