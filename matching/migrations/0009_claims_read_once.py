"""Claims read what they depend on in one statement, and return ids; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts

DROPS = (
    "DROP FUNCTION IF EXISTS wms_claim, wms_close_request, wms_leases",
    "DROP TYPE IF EXISTS wms_claimed",
)


class Migration(migrations.Migration):
    dependencies = [("matching", "0008_finish_stores_causes")]
    operations = [
        migrations.RunSQL(DROPS, migrations.RunSQL.noop),
        InstallTexts("matching", digest="c7ab913bb273daa1bd9a28d18eb2e372ce950746eb5f3f620f73ac4a9e3d2768"),
    ]
