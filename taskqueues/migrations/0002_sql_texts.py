"""Drop the indexes that Django makes beside others and that no query uses.

Functions, triggers and views are installed by the newest migration that does (ADR 50).
"""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("taskqueues", "0001_squashed_0_1_0"),
        ("accounts", "0001_squashed_0_1_0"),
        ("kernel", "0001_squashed_0_1_0"),
        ("resources", "0001_squashed_0_1_0"),
    ]
    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS taskqueues_submitpool_id_8ffd1f9e_like",
            migrations.RunSQL.noop,
        ),
    ]
