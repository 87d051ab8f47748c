"""Rename the model, its column, its primary key and, as Django does not, its permissions."""

from django.db import migrations

_RENAME_PERMISSIONS = """
    UPDATE auth_permission
       SET name = replace(name, '{old}', '{new}'), codename = replace(codename, '{old}', '{new}')
     WHERE codename IN ('add_{old}', 'change_{old}', 'delete_{old}', 'view_{old}')
"""


class Migration(migrations.Migration):
    dependencies = [("kernel", "0002_sql_texts"), ("auth", "0012_alter_user_first_name_max_length")]
    operations = [
        migrations.RenameModel("Pulse", "Liveness"),
        migrations.RenameField("liveness", "beaten_at", "reported_at"),
        migrations.RunSQL(
            "ALTER INDEX kernel_pulse_pkey RENAME TO kernel_liveness_pkey",
            "ALTER INDEX kernel_liveness_pkey RENAME TO kernel_pulse_pkey",
        ),
        migrations.RunSQL(
            _RENAME_PERMISSIONS.format(old="pulse", new="liveness"),
            _RENAME_PERMISSIONS.format(old="liveness", new="pulse"),
        ),
    ]
