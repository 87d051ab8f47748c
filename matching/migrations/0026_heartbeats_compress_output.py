"""Install the functions: a heartbeat gets the last lines of output compressed."""

from django.db import migrations
from django.db.migrations.operations.base import Operation


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0025_compressed_outputs"),
        ("matching", "0025_claims_write_pilots_rarely"),
    ]

    # 0028 installs the functions.
    operations: list[Operation] = []
