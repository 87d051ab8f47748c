"""Downtimes reach the index of task queues; install functions, triggers and views."""

from django.db import migrations

from wms.kernel.sql_texts import InstallTexts


class Migration(migrations.Migration):
    dependencies = [
        ("taskqueues", "0003_labels"),
        ("resources", "0009_downtimes"),
    ]
    operations = [
        InstallTexts("taskqueues", digest="8fb35124ed8ad4a55a6edfa9bdc6bd14cf18b8ee7bc9c1f66b51e26edd3da30d"),
    ]
