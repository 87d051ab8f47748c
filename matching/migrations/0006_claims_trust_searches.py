"""Claims trust the search for what is configured: functions that compared it go."""

from django.db import migrations

#: Of pilots whose queue is unknown; the search compares all of it.
DROPS = (
    "DROP FUNCTION IF EXISTS wms_why_not_at_unknown_place",
    "DROP FUNCTION IF EXISTS wms_next_downtime",
    "DROP FUNCTION IF EXISTS wms_possible_places",
)


class Migration(migrations.Migration):
    dependencies = [("matching", "0005_downtimes_close_claims"), ("taskqueues", "0005_configuration_change_xid")]
    operations = [
        migrations.RunSQL(DROPS, migrations.RunSQL.noop),
    ]
