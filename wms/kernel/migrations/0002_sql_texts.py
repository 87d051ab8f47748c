"""Install functions, triggers and views; drop the indexes that Django makes beside others and that no query uses."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("kernel", "0001_squashed_0_1_0")]
    operations = [
        InstallTexts("kernel", digest="b4c4ed2cfdfe1761ed9a0f44f03793d9dceb9593964f6bfdf18caf54624c24d8"),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS kernel_pulse_name_a4ab836c_like",
            migrations.RunSQL.noop,
        ),
    ]
