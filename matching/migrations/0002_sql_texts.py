"""Install functions, triggers and views, which the newest migration does (ADR 50)."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0001_squashed_0_1_0"),
        ("accounts", "0001_squashed_0_1_0"),
        ("jobs", "0001_squashed_0_1_0"),
        ("kernel", "0001_squashed_0_1_0"),
        ("pilots", "0001_squashed_0_1_0"),
        ("resources", "0001_squashed_0_1_0"),
        ("taskqueues", "0001_squashed_0_1_0"),
    ]
    operations = []
