"""Keep what pilots write, in parts, and find the pilots of one host."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("pilots", "0004_directors_on_celery"),
        ("resources", "0007_ce_types_are_those_of_backends"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="PilotLog",
            fields=[
                (
                    "pilot",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="log",
                        serialize=False,
                        to="pilots.pilot",
                    ),
                ),
                (
                    "received",
                    models.BigIntegerField(
                        default=0, help_text="Characters received, plus those the pilot reported lost."
                    ),
                ),
                (
                    "batch_output",
                    models.TextField(
                        blank=True,
                        help_text="Output kept by its batch system, of a pilot that could not send its log.",
                    ),
                ),
                ("changed_at", models.DateTimeField()),
            ],
            options={"indexes": [models.Index(fields=["changed_at"], name="pilot_log_by_age")]},
        ),
        migrations.CreateModel(
            name="PilotLogPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "log",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="pilots.pilotlog",
                    ),
                ),
                ("offset", models.BigIntegerField()),
                ("text", models.TextField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("log", "offset"), name="a_part_of_a_pilots_log_is_kept_once")
                ],
            },
        ),
        migrations.AddIndex(
            model_name="pilot",
            index=models.Index(
                condition=models.Q(("host_name", ""), _negated=True),
                fields=["host_name", "-id"],
                name="pilot_latest_on_host",
            ),
        ),
    ]
