"""The tables of what was measured, of the mark of the highest ids, and of the last backup."""

from uuid import uuid4

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


class IdMark(models.Model):
    """The one row is the database's own side of the mark of its highest ids (ADR 102)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    database = models.UUIDField(default=uuid4, help_text="Of this database and all that are restored from it.")
    versions = models.JSONField(
        default=dict, help_text="{id of a file with the mark: [its last version, the one before]}."
    )

    class Meta:
        constraints = [models.CheckConstraint(name="id_mark_has_one_row", condition=models.Q(id=1))]

    def __str__(self) -> str:
        return f"mark of the ids of {self.database}"


class LastBackup(models.Model):
    """The one row is the last backup that `backup` has finished; without a row there was none (ADR 103)."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    finished_at = models.DateTimeField(help_text="By the database's clock.")

    class Meta:
        constraints = [models.CheckConstraint(name="last_backup_has_one_row", condition=models.Q(id=1))]

    def __str__(self) -> str:
        return f"backup of {self.finished_at}"
