from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # leases are made and ended while the index is built

    dependencies = [
        ("matching", "0002_claim"),
    ]

    operations = [
        AddIndexConcurrently(
            model_name="match",
            index=models.Index(
                condition=models.Q(("ended_at__isnull", False)), fields=["ended_at"], name="match_ended"
            ),
        ),
    ]
