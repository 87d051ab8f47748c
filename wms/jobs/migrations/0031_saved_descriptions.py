"""Descriptions that users save under names of their own."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Create the table."""

    dependencies = [
        ("jobs", "0030_notices_of_submissions"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedDescription",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=64)),
                (
                    "syntax",
                    models.CharField(
                        choices=[("form", "Form"), ("jdl", "JDL"), ("cfg", "CFG"), ("json", "JSON")], max_length=4
                    ),
                ),
                ("text", models.TextField()),
                (
                    "files",
                    models.JSONField(default=list, help_text="[reference, name] of each sandbox that goes along."),
                ),
                ("saved_at", models.DateTimeField()),
                (
                    "owner",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="saved_descriptions",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("owner", "name"), name="saved_description_has_a_name_of_its_own"),
                    models.CheckConstraint(
                        condition=models.Q(("syntax__in", ["form", "jdl", "cfg", "json"])),
                        name="saved_description_has_known_syntax",
                    ),
                ],
            },
        ),
    ]
