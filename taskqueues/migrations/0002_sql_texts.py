"""Install functions, triggers and views; drop the indexes that Django makes beside others and that no query uses."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [
        ("taskqueues", "0001_squashed_0_1_0"),
        ("accounts", "0001_squashed_0_1_0"),
        ("kernel", "0001_squashed_0_1_0"),
        ("resources", "0001_squashed_0_1_0"),
    ]
    operations = [
        InstallTexts("taskqueues", digest="793ec0604e4fc129fccf5cfa502f6f428c8b4993231ed21b41a80e2b3c878a96"),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS taskqueues_submitpool_id_8ffd1f9e_like",
            migrations.RunSQL.noop,
        ),
    ]
