"""Answers to reports say whether the job moved, and which it is, which the newest migration installs (ADR 50)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("matching", "0003_changes_of_leases")]
    operations = []
