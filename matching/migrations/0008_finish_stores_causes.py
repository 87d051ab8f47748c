"""The end of a payload stores the cause of its failure; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [("matching", "0007_leases_by_time"), ("jobs", "0007_cause_of_failures")]
    operations = [
        migrations.RunSQL("DROP FUNCTION IF EXISTS wms_finish, wms_store_tails", migrations.RunSQL.noop),
        InstallTexts("matching", digest="8b54967240fc9e3fd08665153dc805304332d86b556d407d9f65595f17f436c9"),
    ]
