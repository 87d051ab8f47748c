"""A computing element has no type by itself: as `local`, which it was, its payloads are processes of the server."""

from django.db import migrations, models

import resources.models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0013_stall_windows_have_a_least"),
    ]

    operations = [
        migrations.AlterField(
            model_name="computingelement",
            name="type",
            field=models.CharField(choices=resources.models.ce_types, max_length=16),
        ),
    ]
