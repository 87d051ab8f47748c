"""Install the functions: ids of leases are ordered by time, and heartbeats do not wait for the disk (ADR 58)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0019_fewer_indexes"),
        ("matching", "0021_descriptions_and_outputs_beside_jobs"),
    ]

    operations = [InstallFunctions(digest="bb0c8f305cd68f78148d0864db4c9c0ab6d5e618754f04a7b07449454f4c2487")]
