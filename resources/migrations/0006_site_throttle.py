"""Have the page of throttles list sites; no table changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0003_wall_time_gpus_disk_container"),
    ]

    operations = [
        migrations.CreateModel(
            name="SiteThrottle",
            fields=[],
            options={"verbose_name": "throttle", "proxy": True, "indexes": [], "constraints": []},
            bases=("resources.site",),
        ),
    ]
