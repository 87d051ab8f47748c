"""Let task queues name the software that their jobs need (ADR 34)."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("taskqueues", "0013_composed_names")]

    operations = [
        migrations.AddField(
            model_name="taskqueue",
            name="software",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(max_length=1024),
                default=list,
                help_text="Software published by some queue of the VO must be published where the jobs run.",
                size=None,
            ),
        ),
    ]
