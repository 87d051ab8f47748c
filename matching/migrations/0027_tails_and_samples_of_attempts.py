"""Install the functions: reports store the last lines of each attempt, and heartbeats samples of its usage (ADR 63)."""

from django.db import migrations

from matching.migrations._functions import InstallFunctions


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0028_usage_samples"),
        ("matching", "0026_heartbeats_compress_output"),
    ]

    operations = [InstallFunctions(digest="267093fd0bdef8744dd8a1c541c44453a1413ceb113437548e4d25bd82c31792")]
