"""Install the functions: reports store the last lines of each attempt, and heartbeats samples of its usage (ADR 63)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_usage_samples"),
        ("matching", "0026_heartbeats_compress_output"),
    ]

    operations = [InstallFunctions(digest="26b81b26f16878368d8ca33d29afaad984fcc655004fde5484a3f8419c19e9c6")]
