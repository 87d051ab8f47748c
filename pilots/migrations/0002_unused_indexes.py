"""Drop the indexes that Django makes beside others and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("pilots", "0001_squashed_0_1_0")]
    operations = [
        migrations.RunSQL(
            """
            DROP INDEX IF EXISTS
                pilots_director_name_0ff03c7a_like,
                pilots_director_sites_director_id_05962fed
            """,
            migrations.RunSQL.noop,
        ),
    ]
