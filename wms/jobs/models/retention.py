"""The removal of ended jobs: what operators have allowed, and how far the present sweep has come (ADR 100)."""

from django.db import models
from django.db.models import Q

from wms.accounts.models import VO


class RemovalPermit(models.Model):
    """One row says of a VO with which ages an operator has seen what would be removed, and with which it is allowed."""

    vo = models.OneToOneField(VO, models.CASCADE, primary_key=True, related_name="removal_permit")
    seen_at = models.DateTimeField()
    seen_days = models.JSONField(help_text="{final status, or Pilots: age at that time, in days; 0: for ever}.")
    permitted_at = models.DateTimeField(null=True)
    permitted_by = models.CharField(max_length=150, blank=True, help_text="User name of the operator.")
    permitted_days = models.JSONField(
        null=True,
        help_text="The ages that are allowed; shorter ones have to be seen and allowed again. Null: none are.",
    )

    def __str__(self) -> str:
        return f"removal of jobs of VO {self.vo_id}"


class RemovalSweep(models.Model):
    """The one row is the submission that the sweep has reached; sweeps go from the oldest submission to the newest."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    submitted_at = models.DateTimeField()
    submission_id = models.UUIDField()
    pilot_id = models.BigIntegerField(default=0, help_text="Last pilot that was looked at, after the submissions.")
    rests_until = models.DateTimeField(null=True, help_text="Begin of the next sweep; null: one is under way.")

    class Meta:
        constraints = [models.CheckConstraint(name="removal_sweep_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"sweep at {self.submitted_at}"


class ArchiveState(models.TextChoices):
    """State of a file of the archive."""

    WRITTEN = "written", "Complete, under its name with .part"
    IN_PLACE = "in_place", "Under its name"
    SUPERSEDED = "superseded", "Its jobs are in another file; it is to be deleted"


class ArchiveFile(models.Model):
    """One row is one complete file of removed jobs, written in the transaction that removes them."""

    vo = models.ForeignKey(VO, models.PROTECT, related_name="+", db_index=False)
    day = models.DateField(help_text="On which its jobs were removed, in UTC.")
    number = models.IntegerField(help_text="Of the files of this VO and day, from 1 on.")
    state = models.CharField(max_length=16, choices=ArchiveState, default=ArchiveState.WRITTEN)
    jobs = models.BigIntegerField()
    first_job_id = models.BigIntegerField()
    last_job_id = models.BigIntegerField()
    size_bytes = models.BigIntegerField()
    digest = models.CharField(max_length=64, help_text="SHA-256 of the file, in hexadecimal.")

    class Meta:
        constraints = [
            # Also finds the files of a VO.
            models.UniqueConstraint(name="archive_file_has_a_name_of_its_own", fields=["vo", "day", "number"]),
        ]

    def __str__(self) -> str:
        return f"{self.vo}/{self.day}-{self.number}.parquet"
