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
        InstallTexts("matching", digest="f87f4f6740b2a789100d2a494a6a0df7b3533746bea86669cec1779951e0b3ef"),
    ]
