"""Claims heed downtimes; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0004_reports_say_what_moved"),
        ("resources", "0009_downtimes"),
    ]
    operations = [InstallTexts("matching", digest="d9efb26ae761f34116b93a8d88e2e095e65cdb0daa31f02efb5d6cf135ea7480")]
