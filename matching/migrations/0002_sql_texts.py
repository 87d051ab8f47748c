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
        InstallTexts("matching", digest="a1d6b33a5ba3698612ba72a40d5663ed188535b44e2ac52a1b5c3182846f73cc"),
    ]
