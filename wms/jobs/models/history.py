"""The history of jobs, and commands to the pilots that run them."""

from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q

from wms.jobs.models.jobs import STATUS_CHOICES, Job
from wms.kernel.fields import CurrentTransaction


class JobHistory(models.Model):
    """One row is one change of a job's status.

    The primary key of the table is (job, id): the page of a job needs that order, and a second index, of the ids alone,
    would be written with each change of a status.
    """

    # No constraint: a line is written right after its job, and removed with it; checking and locking the job would cost
    # every change of a status as much as the line itself.
    job = models.ForeignKey(Job, models.CASCADE, related_name="history", db_index=False, db_constraint=False)
    changed_at = models.DateTimeField()
    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    minor_status = models.CharField(max_length=255, blank=True)
    application_status = models.CharField(max_length=255, blank=True)
    source = models.CharField(max_length=150, help_text="Author of the change: a user, a pilot, an agent.")
    transaction_number = models.BigIntegerField(
        db_default=CurrentTransaction(),
        null=True,
        editable=False,
        help_text="Of the transaction that wrote the line; null: written before there was a stream of changes.",
    )

    class Meta:
        verbose_name_plural = "job history"
        indexes = [
            # The stream of changes (ADR 62). Lines are stored in nearly the order of transactions and ids, so that a
            # summary of each range of pages finds the newest. A tree would cost each change of a status an entry.
            BrinIndex(
                name="job_history_in_order", fields=["transaction_number", "id"], pages_per_range=16, autosummarize=True
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} at {self.changed_at}"


class JobCommand(models.Model):
    """One row is one command to the pilot that runs the job, repeated with each response until acknowledged."""

    # Indexed for the removal of jobs.
    job = models.ForeignKey(Job, models.CASCADE, related_name="commands")
    name = models.CharField(max_length=16, help_text="kill, peek or drain.")
    arguments = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Serves each heartbeat: commands not acknowledged yet.
            models.Index(name="command_to_be_obeyed", fields=["job"], condition=Q(acknowledged_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.pk}"
