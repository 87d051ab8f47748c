"""Usage by groups, from which their priorities are computed."""

from django.db import models
from django.db.models import Q

from wms.accounts.models import Group


class UsageInterval(models.Model):
    """Usage of one CPU segment by one group in one interval of ``domain.usage.INTERVAL``."""

    group = models.ForeignKey(Group, models.CASCADE, related_name="+", db_index=False)
    cpu_segment_s = models.PositiveIntegerField(help_text="In reference-core seconds per core.")
    began_at = models.DateTimeField(help_text="Start of the interval.")
    matches = models.PositiveIntegerField(help_text="Number of jobs that pilots got.")
    processor_s = models.FloatField(help_text="Time under lease × processors (ADR 13).")

    class Meta:
        db_table = "taskqueues_delivery"
        constraints = [
            # Its index is for the sums of the last hour, day and week, and for the removal of older rows.
            models.UniqueConstraint(
                name="a_group_has_one_delivery_of_a_segment_in_an_interval",
                fields=["began_at", "group", "cpu_segment_s"],
            ),
        ]

    def __str__(self) -> str:
        return f"usage interval {self.pk}"


class GroupUsage(models.Model):
    """Usage of one group, decayed with a half-life of three days (docs/architecture.md, Priorities)."""

    group = models.OneToOneField(Group, models.CASCADE, primary_key=True, related_name="+")
    used_s = models.FloatField(help_text="Processor-seconds, decayed; all rows until the same moment.")

    def __str__(self) -> str:
        return f"use of group {self.group_id}"


class UsageCounter(models.Model):
    """The time up to which usage has been counted, in one row."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    counted_until = models.DateTimeField()

    class Meta:
        db_table = "taskqueues_deliverycount"
        constraints = [models.CheckConstraint(name="delivery_count_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return str(self.counted_until)
