"""Install functions, triggers and views; drop a function of 0.1.0, and an index of Django's that no query uses."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0001_squashed_0_1_0"),
        ("accounts", "0001_squashed_0_1_0"),
        ("kernel", "0001_squashed_0_1_0"),
        ("resources", "0001_squashed_0_1_0"),
        ("taskqueues", "0001_squashed_0_1_0"),
    ]
    operations = [
        InstallTexts("jobs", digest="c898f12879b76dad2accd9a524fe6ff8a7997795f4fa4fb328dd2b094a89882b"),
        migrations.RunSQL("DROP FUNCTION IF EXISTS wms_note_all_contents()", migrations.RunSQL.noop),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS jobs_sandbox_digest_847f8706_like",
            migrations.RunSQL.noop,
        ),
    ]
