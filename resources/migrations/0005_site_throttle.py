"""Have the page of throttles list sites; no table changes."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0004_replicas"),
    ]

    operations = [
        migrations.CreateModel(
            name="SiteThrottle",
            fields=[],
            options={"verbose_name": "throttle", "proxy": True, "indexes": [], "constraints": []},
            bases=("resources.site",),
        ),
    ]
