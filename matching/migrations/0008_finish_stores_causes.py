"""The end of a payload stores the cause of its failure: functions with other arguments go."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("matching", "0007_leases_by_time"), ("jobs", "0007_cause_of_failures")]
    operations = [
        migrations.RunSQL("DROP FUNCTION IF EXISTS wms_finish, wms_store_tails", migrations.RunSQL.noop),
    ]
