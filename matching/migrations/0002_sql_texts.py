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
        InstallTexts("matching", digest="54484e2f7cb5e1831850e6c4ef129c0d2e157b3abe8f464f87c058c2b4ac21e1"),
    ]
