"""Drop a function of 0.1.0, and an index of Django's that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_squashed_0_1_0"),
        ("accounts", "0001_squashed_0_1_0"),
        ("kernel", "0001_squashed_0_1_0"),
        ("resources", "0001_squashed_0_1_0"),
        ("taskqueues", "0001_squashed_0_1_0"),
    ]
    operations = [
        migrations.RunSQL("DROP FUNCTION IF EXISTS wms_note_all_contents()", migrations.RunSQL.noop),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS jobs_sandbox_digest_847f8706_like",
            migrations.RunSQL.noop,
        ),
    ]
