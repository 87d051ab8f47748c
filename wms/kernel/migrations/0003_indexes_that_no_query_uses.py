"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("kernel", "0002_pulse")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS kernel_pulse_name_a4ab836c_like",
            "CREATE INDEX kernel_pulse_name_a4ab836c_like ON kernel_pulse (name varchar_pattern_ops)",
        ),
    ]
