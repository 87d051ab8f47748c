"""An index of the history by VO: that of a VO was found in those of all."""

import django.contrib.postgres.indexes
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("accounts", "0010_history")]
    operations = [
        migrations.AddIndex(
            "securityevent",
            django.contrib.postgres.indexes.GinIndex(
                condition=models.Q(("vo_ids__isnull", False)),
                fastupdate=False,
                fields=["vo_ids"],
                name="security_event_by_vo",
            ),
        ),
    ]
