"""Claims heed downtimes, which the newest migration installs (ADR 50)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0004_reports_say_what_moved"),
        ("resources", "0009_downtimes"),
    ]
    operations = []
