"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0011_plain_help_texts")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS accounts_group_name_5311469e_like",
            "CREATE INDEX accounts_group_name_5311469e_like ON accounts_group (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS accounts_user_username_6088629e_like",
            "CREATE INDEX accounts_user_username_6088629e_like ON accounts_user (username varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS accounts_userdn_dn_98357beb_like",
            "CREATE INDEX accounts_userdn_dn_98357beb_like ON accounts_userdn (dn varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS accounts_vo_name_cd5413c3_like",
            "CREATE INDEX accounts_vo_name_cd5413c3_like ON accounts_vo (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS accounts_vo_managers_vo_id_6d7ed28c",
            "CREATE INDEX accounts_vo_managers_vo_id_6d7ed28c ON accounts_vo_managers (vo_id)",
        ),
        migrations.AlterField(
            model_name="invitation",
            name="group",
            field=models.ForeignKey(
                db_index=False,
                on_delete=models.deletion.CASCADE,
                related_name="invitations",
                to="accounts.group",
            ),
        ),
    ]
