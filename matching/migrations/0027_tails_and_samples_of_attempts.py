"""Install the functions: reports store the last lines of each attempt, and heartbeats samples of its usage (ADR 63)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_usage_samples"),
        ("matching", "0026_heartbeats_compress_output"),
    ]

    operations = [InstallFunctions(digest="b29161ae6cdb89cb52d4ca07e90219ea9cd97eeb70b70e527f99aeac77953ec0")]
