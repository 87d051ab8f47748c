"""Claims trust the search for what is configured; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts

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
        InstallTexts("matching", digest="c060c3b044f7b3e23d7673c68815894464c0e38aed63c3f13d56e01e5c5b5745"),
    ]
