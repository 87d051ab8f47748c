"""Add the submissions whose owners want mail when they have ended."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("jobs", "0029_accounting"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SubmissionNotice",
            fields=[
                (
                    "submission",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="notice",
                        serialize=False,
                        to="jobs.submission",
                    ),
                ),
                ("due_at", models.DateTimeField(help_text="Time of the next look whether all jobs have ended.")),
                (
                    "attempts",
                    models.PositiveSmallIntegerField(default=0, help_text="Number of times that its mail was refused."),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        help_text="Of the submission.",
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["owner"], name="notice_of_owner")]},
        ),
    ]
