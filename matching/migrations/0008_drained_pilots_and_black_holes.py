"""Have claims refuse pilots that are drained, and those of black holes; and count pilots on a page of their own."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("matching", "0007_heartbeat"),
        ("pilots", "0006_what_is_known_of_nodes"),
    ]

    operations = [
        # Functions are installed by the newest migration that changed one (ADR 50).
        migrations.CreateModel(
            name="PilotEfficiency",
            fields=[],
            options={
                "verbose_name": "pilot efficiency",
                "verbose_name_plural": "pilot efficiency",
                "proxy": True,
                "indexes": [],
                "constraints": [],
            },
            bases=("pilots.pilot",),
        ),
    ]
