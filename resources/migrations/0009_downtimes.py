"""Downtimes of sites, computing elements and queues."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models

import resources.domain.enums


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0008_site_administrators"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Downtime",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "begins_at",
                    models.DateTimeField(
                        help_text="Before it, only jobs that would end by then start here.", verbose_name="begin"
                    ),
                ),
                ("ends_at", models.DateTimeField(verbose_name="end")),
                ("reason", models.CharField(help_text="Users see it.", max_length=255)),
                (
                    "declared_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False),
                ),
                (
                    "source",
                    models.CharField(
                        blank=True,
                        choices=[
                            (resources.domain.enums.DowntimeSource["HERE"], "declared here"),
                            (
                                resources.domain.enums.DowntimeSource["GOCDB"],
                                resources.domain.enums.DowntimeSource["GOCDB"],
                            ),
                        ],
                        db_default=resources.domain.enums.DowntimeSource["HERE"],
                        default=resources.domain.enums.DowntimeSource["HERE"],
                        editable=False,
                        max_length=16,
                    ),
                ),
                (
                    "external_id",
                    models.CharField(blank=True, db_default="", default="", editable=False, max_length=128),
                ),
                (
                    "ce",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="Empty: the whole site.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="downtimes",
                        to="resources.computingelement",
                        verbose_name="computing element",
                    ),
                ),
                (
                    "declared_by",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "queue",
                    models.ForeignKey(
                        blank=True,
                        db_index=False,
                        help_text="Empty: the whole computing element, or site.",
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="downtimes",
                        to="resources.queue",
                    ),
                ),
                (
                    "site",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="downtimes",
                        to="resources.site",
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["site", "ends_at"], name="downtime_of_site")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("begins_at__lt", models.F("ends_at"))),
                        name="downtime_begins_before_it_ends",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("queue", None), ("ce__isnull", False), _connector="OR"),
                        name="downtime_of_a_queue_names_its_ce",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("source", ""), _negated=True),
                        fields=("source", "external_id", "site", "ce", "queue"),
                        name="an_announced_downtime_is_there_once",
                        nulls_distinct=False,
                    ),
                ],
            },
        ),
    ]
