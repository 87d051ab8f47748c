"""Install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


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
    operations = [
        InstallTexts("matching", digest="e83d15f6fd0e0518bdb8ca35d62d11c446107c01be74aa0a64fd9199757a6ff1"),
    ]
