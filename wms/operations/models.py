"""The table of what was measured."""

from django.db import models


class StoredMeasurements(models.Model):
    """The one row is the values of all gauges when they were last measured (ADR 98)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    measured_at = models.DateTimeField(help_text="By the database's clock.")
    values = models.JSONField(help_text="{gauge: [[values of its labels, number], …]}.")

    class Meta:
        db_table = "operations_measurements"
        constraints = [models.CheckConstraint(name="measurements_have_one_row", condition=models.Q(id=1))]

    def __str__(self) -> str:
        return f"measurements of {self.measured_at}"
