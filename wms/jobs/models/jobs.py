"""Jobs, the view of their hosts, and the state of their re-evaluation by input data."""

from collections.abc import Iterator
from typing import Any, Self

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BTreeIndex
from django.db import models
from django.db.models import F, Func, Q

from resources.models import ComputingElement, Queue, Site
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.jobs.models.attempts import OutputTail
from wms.jobs.models.descriptions import StoredDescription
from wms.jobs.models.submissions import Submission
from wms.jobs.models.visibility import OwnedQuerySet

LEASED_STATUSES = sorted(LEASED)

STATUS_CHOICES = [(s, s) for s in JobStatus]

#: Statuses of jobs that may return to a task queue but are in none. The submit pools of Waiting jobs are known by their
#: task queues; a failed job that is rescheduled registers its pool anew.
REFERRING_TO_POOLS = frozenset(JobStatus) - FINAL - {JobStatus.WAITING}

#: Statuses of submitted jobs that no pilot has.
PLACED = [JobStatus.CHECKING, JobStatus.WAITING]

_PLACED_WITH_INPUT_DATA = Q(input_sites__isnull=False, status__in=PLACED)


class JobQuerySet(OwnedQuerySet["Job"]):
    """Querysets of jobs by actor and by state."""

    def changeable_by(self, actor: User) -> Self:
        """Keep those that the actor may act on: visible ones, but with a token of scope ``submit`` only its own."""
        return self.filter(owner=actor) if actor.acts_on_own_jobs_only else self.visible_to(actor)

    def with_description(self) -> Self:
        """Load the description with each job; a list of jobs does not need it."""
        return self.select_related("stored_description")

    def placed_with_input_data(self) -> Self:
        """Keep those that are Waiting or Checking and have input data."""
        return self.filter(_PLACED_WITH_INPUT_DATA)


class Job(models.Model):
    """One row is one job, from its submission until its removal (ADR 100).

    NB: the status is indexed, so each change of it writes every index of the table: each must serve a page.
    """

    submission = models.ForeignKey(Submission, models.PROTECT, related_name="jobs", db_index=False)
    # No constraints: these are copies from the row of the submission, which has them. For ten thousand jobs the
    # database would look up the same owner, group and VO ten thousand times.
    owner = models.ForeignKey(User, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False)
    vo = models.ForeignKey(
        VO, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False, help_text="VO of the group."
    )

    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    minor_status = models.CharField(max_length=255, blank=True)
    application_status = models.CharField(max_length=255, blank=True)

    job_name = models.CharField(max_length=255, blank=True)
    job_group = models.CharField(max_length=255, blank=True, help_text="Free label of the user.")
    job_type = models.CharField(max_length=255)
    priority = models.SmallIntegerField(help_text="User priority, 0 to 10.")
    # No constraint: it is looked up for each job that is submitted.
    stored_description = models.ForeignKey(
        StoredDescription, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False
    )
    submit_pools = ArrayField(
        models.CharField(max_length=255),
        default=list,
        help_text="Submit pools that it names, or that of its requirements.",
    )

    input_sites = ArrayField(
        models.CharField(max_length=128),
        null=True,
        help_text="Sites with all of its input data, as of its enqueueing; null: it has no input data.",
    )

    reschedules = models.SmallIntegerField(default=0, help_text="Number of times it went back to its queue.")
    held_back = models.JSONField(
        null=True,
        editable=False,
        help_text="While it is Held or Checking: when and where it may be matched after that.",
    )
    # No constraints: the claim, which writes these, has read both rows in the same transaction. Constraints would lock
    # them, so all claims for one site would write the same row.
    site = models.ForeignKey(
        Site,
        models.SET_NULL,
        null=True,
        related_name="jobs",
        db_index=False,
        db_constraint=False,
        help_text="Of the last match.",
    )
    ce = models.ForeignKey(
        ComputingElement, models.SET_NULL, null=True, related_name="+", db_index=False, db_constraint=False
    )
    queue = models.ForeignKey(Queue, models.SET_NULL, null=True, related_name="+", db_index=False, db_constraint=False)
    # No foreign key: this app does not depend on pilots.
    pilot_id = models.BigIntegerField(null=True, help_text="Pilot of the last match.")

    submitted_at = models.DateTimeField()
    status_changed_at = models.DateTimeField()
    matched_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)

    exit_code = models.IntegerField(null=True)
    cpu_s = models.FloatField(null=True, help_text="CPU time of all processes of the payload.")
    wall_s = models.FloatField(null=True)
    max_memory_mb = models.FloatField(null=True, help_text="Highest memory that was reported.")
    max_disk_mb = models.FloatField(null=True)
    # No index: no query starts from a sandbox.
    output_sandbox = models.ForeignKey("Sandbox", models.PROTECT, null=True, related_name="+", db_index=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints = [
            # A function, which PostgreSQL keeps for the session; the text of constraints it reads anew with each
            # statement that changes a job.
            models.CheckConstraint(
                name="job_has_known_status_and_priority_and_ended_at_iff_final",
                condition=Func(
                    *(F(column) for column in ("status", "ended_at", "priority", "reschedules")),
                    function="wms_job_is_possible",
                    output_field=models.BooleanField(),
                ),
            ),
        ]
        indexes = [
            # Lists: the jobs of each kind that the counters know, in the order of their ids (``queries.found_jobs``).
            models.Index(name="job_of_its_kind", fields=["owner", "group", "status", "id"]),
            # The same at a site; without waiting jobs, which are at no site and come by thousands. Jobs at a site are
            # counted from the index alone, whose further columns tell the exit code, and by the content of the
            # submission most other properties.
            models.Index(
                name="job_of_its_kind_at_site",
                fields=["site", "owner", "group", "status", "id"],
                include=["submission", "exit_code"],
                condition=Q(site__isnull=False),
            ),
            # The jobs of a submission, and those with a name. A request fills pages with its jobs, and each status adds
            # an entry of each job: without room, PostgreSQL searches full pages for old entries again and again.
            BTreeIndex(
                name="job_of_submission",
                fillfactor=50,
                fields=["submission", "job_name"],
                opclasses=["uuid_ops", "varchar_pattern_ops"],
            ),
            # Jobs that need their submit pools, but are in no task queue.
            models.Index(
                name="job_that_names_pools",
                fields=["id"],
                condition=Q(status__one_of=sorted(REFERRING_TO_POOLS)) & ~Q(submit_pools=[]),
            ),
            # Jobs that wait for a file whose replicas changed, and page by page all with input data.
            models.Index(
                name="job_of_stored_description", fields=["stored_description"], condition=_PLACED_WITH_INPUT_DATA
            ),
            # Whether an ended job has a description: one entry of each job, when it ends.
            models.Index(
                name="job_of_its_description", fields=["stored_description"], condition=Q(ended_at__isnull=False)
            ),
            models.Index(name="job_with_input_data", fields=["id"], condition=_PLACED_WITH_INPUT_DATA),
            # Whether a job needs an output sandbox that is due for removal.
            models.Index(
                name="job_of_output_sandbox", fields=["output_sandbox"], condition=Q(output_sandbox__isnull=False)
            ),
            # Jobs to be let in when a quota of waiting jobs has room, by the columns of quotas.
            models.Index(
                name="job_that_waits_for_room",
                fields=["group", "owner", "job_type", "id"],
                condition=Q(status=JobStatus.CHECKING, minor_status=WAITS_FOR_ROOM),
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}"

    @property
    def description(self) -> dict[str, Any]:
        """All fields of its description, in the form of the REST interface."""
        # Descriptions stored by versions before this one have a name, which is that of the job or of an equal one.
        return {**self.stored_description.description, "job_name": self.job_name}

    @property
    def attempt(self) -> int:
        """Number of its present attempt, else of its last one; the first is 0."""
        # A job that is rescheduled while a pilot has it is in the same attempt until that pilot has stopped it.
        return max(0, self.reschedules - (self.status == JobStatus.RESCHEDULED))

    @property
    def std_output_tail(self) -> str:
        """Last lines of the standard output of its attempt, as far as they were reported."""
        return next((tail.std_output or "" for tail in self._tails_of_attempt()), "")

    @property
    def std_error_tail(self) -> str:
        """Last lines of the standard error of its attempt, as far as they were reported."""
        return next((tail.std_error or "" for tail in self._tails_of_attempt()), "")

    @property
    def cause_line(self) -> str:
        """The line of its output that tells why its attempt failed; empty: unknown."""
        return next((tail.cause_line for tail in self._tails_of_attempt()), "")

    def _tails_of_attempt(self) -> Iterator[OutputTail]:
        return (tail for tail in self.output_tails.all() if tail.attempt == self.attempt)


class JobOnHost(models.Model):
    """View of the jobs by the host of the pilot of their last match; a job may be there twice.

    The app of the matches, which is above this one, makes it.
    """

    job = models.ForeignKey(Job, models.DO_NOTHING, related_name="hosts", db_index=False, db_constraint=False)
    host_name = models.CharField(max_length=255)

    class Meta:
        managed = False
        db_table = "jobs_jobonhost"

    def __str__(self) -> str:
        return f"job {self.job_id} on {self.host_name}"


class SiteLayout(models.Model):
    """The one row is a digest of the sites of storage elements at the last re-evaluation of jobs because of it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    digest = models.BinaryField(max_length=32, help_text="SHA-256 of the content.")

    class Meta:
        constraints = [models.CheckConstraint(name="site_layout_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return bytes(self.digest).hex()
