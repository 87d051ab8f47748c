"""Drop an index that Django makes for searches by the beginning of a session's key, of which there are none."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_end_published_passwords")]
    operations = [
        migrations.RunSQL("DROP INDEX IF EXISTS accounts_usersession_session_id_421ab3d6_like", migrations.RunSQL.noop)
    ]
