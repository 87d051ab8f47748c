"""Leases of jobs to pilots."""

from uuid import uuid4

from django.db import models
from django.db.models import Q

from pilots.models import Pilot
from resources.models import Queue
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job


class Match(models.Model):
    """A match: the lease of one job to one pilot (docs/architecture.md, Leases)."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    # No constraints: the claim, which writes every row, has locked the job and the pilot, whose rows are removed after
    # it, and read the queue; checking and locking them again would take a tenth of its time.
    job = models.ForeignKey(Job, models.PROTECT, related_name="matches", db_constraint=False)
    pilot = models.ForeignKey(Pilot, models.PROTECT, related_name="matches", db_index=False, db_constraint=False)
    request_id = models.UUIDField(help_text="A repeated request of the same pilot gets the same leases.")
    ordinal = models.SmallIntegerField(default=0, help_text="Number of the lease within its request, from 0.")
    queue = models.ForeignKey(Queue, models.SET_NULL, null=True, related_name="+", db_index=False, db_constraint=False)
    cpu_segment_s = models.IntegerField(default=0, help_text="CPU segment of the task queue it came from.")
    leased_at = models.DateTimeField()
    expires_at = models.DateTimeField(help_text="The server ends it some time later (WMS_LEASE_GRACE_S).")
    reported_at = models.DateTimeField(null=True, help_text="Last report; none: not started yet.")
    reported_status = models.CharField(
        max_length=16, default=JobStatus.MATCHED, help_text="Last reported status, to which a Stalled job returns."
    )
    ended_at = models.DateTimeField(null=True)
    end_reason = models.CharField(max_length=32, blank=True, help_text="finished, killed, expired or pilot_ended.")

    job_at_fault = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether it ended because the node lacks what the job itself requires.",
    )
    died = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether it ended because the pilot, or the pilot's process for the job, died while the payload ran.",
    )

    changes = models.SmallIntegerField(
        default=0, db_default=0, help_text="Reports that changed minor or application status, but not the status."
    )
    output_names = models.SmallIntegerField(
        default=0, db_default=0, help_text="Logical names that were new when it reserved or registered them."
    )

    class Meta:
        verbose_name_plural = "matches"
        constraints = [
            models.UniqueConstraint(
                name="job_has_at_most_one_open_match", fields=["job"], condition=Q(ended_at__isnull=True)
            ),
            models.UniqueConstraint(
                name="a_request_of_a_pilot_gets_its_leases_once", fields=["pilot", "request_id", "ordinal"]
            ),
        ]
        indexes = [
            # For the expirer and the end of a pilot, which read open leases only. Without the times of heartbeats,
            # whose updates would not be HOT.
            models.Index(name="match_open", fields=["pilot"], condition=Q(ended_at__isnull=True)),
            # For the usage of groups: with the open ones, all leases of the last hour, day or week.
            models.Index(name="match_ended", fields=["ended_at"], condition=Q(ended_at__isnull=False)),
            # For the lists of who ran where, the newest first: without it all leases of a period would be sorted.
            models.Index(name="match_leased", fields=["leased_at"]),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class PilotEfficiency(Pilot):
    """The pilots again, for the admin page of their efficiency."""

    class Meta:
        proxy = True
        verbose_name = "pilot efficiency"
        verbose_name_plural = "pilot efficiency"


class ExpirerRun(models.Model):
    """The time of the expirer's last run, in one row; it shows the expirer's own outage."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    ran_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(name="expirer_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return str(self.ran_at)
