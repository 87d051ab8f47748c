"""What sites advertise, and how many matches they get in between."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("resources", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="ThrottleState",
            fields=[
                (
                    "site",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="throttle_state",
                        serialize=False,
                        to="resources.site",
                    ),
                ),
                (
                    "version",
                    models.BigIntegerField(
                        default=1, help_text="Higher with each advertisement, count or change of policy."
                    ),
                ),
                (
                    "advertised",
                    models.JSONField(default=dict, help_text="Numbers, by the names under which SAM advertises them."),
                ),
                ("classad", models.TextField(blank=True, help_text="The advertisement, when it came in ClassAd form.")),
                ("sequence", models.BigIntegerField(help_text="Of the last advertisement that had one.", null=True)),
                ("advertised_at", models.DateTimeField(help_text="None: the server counted itself.", null=True)),
                ("measured_at", models.DateTimeField(help_text="CurMatches counts the matches after it.")),
                ("expires_at", models.DateTimeField()),
                (
                    "room",
                    models.PositiveIntegerField(
                        help_text="Matches from the measurement until it closes; none: an expression decides.",
                        null=True,
                    ),
                ),
                ("matched", models.PositiveIntegerField(default=0, help_text="Matches since the measurement.")),
            ],
        ),
        # Each match writes a row again: room for the new version on the same page keeps the indexes as they are.
        migrations.RunSQL("ALTER TABLE resources_throttlestate SET (fillfactor = 20)", migrations.RunSQL.noop),
    ]
