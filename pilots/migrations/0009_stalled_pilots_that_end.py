"""Let a pilot that was killed because it did not start in time end with the status Stalled."""

from django.db import migrations, models

import wms.kernel.db  # noqa: F401 - the look-up one_of


class Migration(migrations.Migration):
    dependencies = [
        ("pilots", "0008_doubts_of_computing_elements"),
    ]

    operations = [
        migrations.AddField(
            model_name="pilot",
            name="stalled_at",
            field=models.DateTimeField(
                blank=True, help_text="When its status became Stalled: it had not started in time.", null=True
            ),
        ),
        migrations.RemoveConstraint(model_name="pilot", name="pilot_status_is_known_and_ended_at_set_iff_ended"),
        migrations.AddConstraint(
            model_name="pilot",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("ended_at__isnull", False),
                        ("status__one_of", ["Aborted", "Done", "Failed", "Lost", "Stalled"]),
                    ),
                    models.Q(
                        ("ended_at__isnull", True), ("status__one_of", ["Running", "Stalled", "Submitted", "Waiting"])
                    ),
                    _connector="OR",
                ),
                name="pilot_status_is_known_and_ended_at_set_iff_ended",
            ),
        ),
    ]
