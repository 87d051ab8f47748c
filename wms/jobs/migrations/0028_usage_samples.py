"""The usage of payloads over time (ADR 63)."""

import django.db.models.deletion
from django.contrib.postgres.fields import ArrayField
from django.db import migrations, models

#: A sample is logged in a few bytes if its row stays in its page, which needs room for one more row of a kilobyte.
_ROOM = "ALTER TABLE jobs_usagesamples SET (fillfactor = 85)"


class RealField(models.FloatField):  # type: ignore[type-arg]  # generic only in the stubs
    """A number of four bytes and seven digits."""

    def db_type(self, connection: object) -> str:  # noqa: ARG002 - Django's
        """Return the type of the column."""
        return "real"


class Migration(migrations.Migration):
    dependencies = [("jobs", "0027_tails_of_attempts")]

    operations = [
        migrations.CreateModel(
            name="UsageSamples",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "job_id", "attempt", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "attempt",
                    models.SmallIntegerField(
                        help_text="Number of times that the job had been rescheduled; the first is 0."
                    ),
                ),
                (
                    "step_s",
                    models.IntegerField(
                        help_text="Seconds since the start are divided into steps; each has one sample at most."
                    ),
                ),
                (
                    "samples",
                    ArrayField(
                        base_field=RealField(null=True),
                        help_text="Four numbers of each sample: seconds since the start, CPU seconds, memory and disk in "
                        "MB.",
                        size=None,
                    ),
                ),
                (
                    "job",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="usage_samples",
                        to="jobs.job",
                    ),
                ),
            ],
        ),
        migrations.RunSQL(_ROOM, migrations.RunSQL.noop),
    ]
