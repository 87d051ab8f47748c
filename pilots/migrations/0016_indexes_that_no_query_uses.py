"""Drop indexes that Django makes beside others, and that no query uses."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("pilots", "0015_plain_help_texts")]

    operations = [
        migrations.RunSQL(
            "DROP INDEX IF EXISTS pilots_director_name_0ff03c7a_like",
            "CREATE INDEX pilots_director_name_0ff03c7a_like ON pilots_director (name varchar_pattern_ops)",
        ),
        migrations.RunSQL(
            "DROP INDEX IF EXISTS pilots_director_sites_director_id_05962fed",
            "CREATE INDEX pilots_director_sites_director_id_05962fed ON pilots_director_sites (director_id)",
        ),
    ]
