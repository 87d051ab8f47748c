"""Keep the platforms that nodes report of their queues, and whether containers of a site provide them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0010_composed_names"),
    ]

    operations = [
        migrations.AddField(
            model_name="site",
            name="containers_provide_platforms",
            field=models.BooleanField(
                default=False,
                help_text="Jobs get the platforms of their queue from containers: where nodes can run containers, the queue's platforms hold whatever the node itself is.",
            ),
        ),
        migrations.CreateModel(
            name="ReportedPlatform",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("platform", models.CharField(max_length=128)),
                ("host_name", models.CharField(blank=True, max_length=255)),
                ("seen_at", models.DateTimeField(help_text="When a node last reported it, to the minute.")),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="reported_platforms",
                        to="resources.queue",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "platform"), name="a_platform_is_reported_once_of_a_queue")
                ],
            },
        ),
    ]
