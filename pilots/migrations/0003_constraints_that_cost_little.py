"""Say the same in constraints that PostgreSQL reads in a tenth of the time; it reads them with every statement."""

from django.conf import settings
from django.db import migrations, models

import wms.kernel.db  # noqa: F401 - the look-up one_of


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_sharing_of_a_vo"),
        ("pilots", "0002_last_answer"),
        ("resources", "0001_initial"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="pilot",
            name="pilot_status_is_known",
        ),
        migrations.RemoveConstraint(
            model_name="pilot",
            name="pilot_ended_at_set_iff_ended",
        ),
        migrations.AddConstraint(
            model_name="pilot",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("ended_at__isnull", False), ("status__one_of", ["Aborted", "Done", "Failed", "Lost"])),
                    models.Q(
                        ("ended_at__isnull", True), ("status__one_of", ["Running", "Stalled", "Submitted", "Waiting"])
                    ),
                    _connector="OR",
                ),
                name="pilot_status_is_known_and_ended_at_set_iff_ended",
            ),
        ),
        # Room in each page for the next version of a row: a match and a heartbeat touch no indexed column, and then
        # write no index.
        migrations.RunSQL(
            "ALTER TABLE pilots_pilot SET (fillfactor = 80)", "ALTER TABLE pilots_pilot RESET (fillfactor)"
        ),
    ]
