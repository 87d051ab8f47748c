"""Install functions, triggers and views; drop the indexes that Django makes beside others and that no query uses."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("accounts", "0002_squashed_0_1_0")]
    operations = [
        InstallTexts("accounts", digest="fe914f19ccc58cafa0a3db5a04d9ed0e76de0ae8beaec149eb3033de6e5a4f09"),
        migrations.RunSQL(
            """
            DROP INDEX IF EXISTS
                accounts_group_name_5311469e_like,
                accounts_user_username_6088629e_like,
                accounts_userdn_dn_98357beb_like,
                accounts_vo_name_cd5413c3_like,
                accounts_vo_managers_vo_id_6d7ed28c
            """,
            migrations.RunSQL.noop,
        ),
    ]
