"""Models of the demand: jobs with their history, submissions, and sandboxes."""

from collections.abc import Iterator
from typing import Any, Self, TypeVar
from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import BrinIndex, BTreeIndex, GinIndex
from django.db import models
from django.db.models import F, Func, Q
from django.db.models.fields.json import KeyTransform
from django.utils import timezone

from resources.models import ComputingElement, Queue, Site
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.jobs.domain.samples import Sample, samples_of
from wms.kernel.fields import CompressedTextField, CurrentTransaction

LEASED_STATUSES = sorted(LEASED)
STATUS_CHOICES = [(s, s) for s in JobStatus]
#: Statuses of jobs that may return to a task queue but are in none. The submit pools of Waiting jobs are known by their
#: task queues; a failed job that is rescheduled registers its pool anew.
REFERRING_TO_POOLS = frozenset(JobStatus) - FINAL - {JobStatus.WAITING}
#: Statuses of submitted jobs that no pilot has.
PLACED = [JobStatus.CHECKING, JobStatus.WAITING]
_PLACED_WITH_INPUT_DATA = Q(input_sites__isnull=False, status__in=PLACED)
#: Of a stored description: it names a file that its jobs read.
NAMES_INPUT_DATA = Q(description__input_data__0__isnull=False)


class Submission(models.Model):
    """One row is one request that submitted jobs; its id is the job-group id of all of them."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    owner = models.ForeignKey(User, models.PROTECT, related_name="submissions", db_index=False)
    group = models.ForeignKey(Group, models.PROTECT, related_name="submissions", db_index=False)
    submitted_at = models.DateTimeField()
    request_id = models.UUIDField(
        null=True, help_text="Idempotency key: a repeated request of its owner returns the first response."
    )
    body_digest = models.BinaryField(max_length=32, help_text="SHA-256 of the request; a different body is a conflict.")
    answer = models.JSONField(null=True, help_text="Response, repeated for the same request_id.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="request_id_is_used_once_by_its_owner",
                fields=["owner", "request_id"],
                condition=Q(request_id__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return str(self.pk)


class SubmissionNotice(models.Model):
    """One row is one submission whose owner wants mail when it has ended; the row is deleted before the mail is sent.

    So a submission gets one message at most: what is rescheduled after it is not reported again.
    """

    submission = models.OneToOneField(Submission, models.CASCADE, primary_key=True, related_name="notice")
    owner = models.ForeignKey(User, models.CASCADE, related_name="+", db_index=False, help_text="Of the submission.")
    due_at = models.DateTimeField(help_text="Time of the next look whether all jobs have ended.")
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Number of times that its mail was refused.")

    class Meta:
        indexes = [models.Index(name="notice_of_owner", fields=["owner"])]  # each submission of who wants mail asks

    def __str__(self) -> str:
        return f"notice of submission {self.submission_id}"


class StoredDescription(models.Model):
    """One row is one description, shared by all jobs that have exactly this one, except for their names (ADR 57).

    No row is changed or deleted: jobs stay, and a changed description of a job is another row.
    """

    description = models.JSONField(help_text="All fields but the job's name, in the form of the REST interface.")
    digest = models.GeneratedField(
        # Of the stored form, in which equal descriptions are equal texts.
        expression=Func(Func(F("description"), function="jsonb_send"), function="sha256"),
        output_field=models.BinaryField(max_length=32),
        db_persist=True,
        unique=True,
        help_text="SHA-256 of the description.",
    )

    class Meta:
        indexes = [
            # Descriptions that name a file whose replicas changed; most name no input data.
            GinIndex(
                KeyTransform("input_data", "description"), name="description_of_input_file", condition=NAMES_INPUT_DATA
            ),
        ]

    def __str__(self) -> str:
        return bytes(self.digest).hex()


M = TypeVar("M", bound=models.Model)


class OwnedQuerySet(models.QuerySet[M]):
    """Querysets of rows with the owner, group and VO of jobs."""

    def visible_to(self, actor: User) -> Self:
        """Keep the actor's own jobs, those of its JOB_SHARING groups and those of the VOs that it manages."""
        if actor.is_operator:
            return self
        sharing = Group.objects.sharing().filter(memberships__user=actor)
        return self.filter(Q(owner=actor) | Q(group__in=sharing) | Q(vo__in=VO.objects.filter(managers=actor)))


class NameRest(models.TextChoices):
    """What follows, in the names of a submission's jobs, on the beginning that they share."""

    NOTHING = "nothing"
    DIGITS = "digits"
    ANYTHING = "anything"


class SubmissionContent(models.Model):
    """One row is what the jobs of a submission have in common, by which lists and summaries find them (ADR 59).

    Triggers of the table of jobs write it. A column of null: the jobs differ in it. Few labels and stems of names that
    they differ in are noted; these two are null if the jobs do not differ.
    """

    # No constraints: these are copies from the rows of jobs.
    submission = models.OneToOneField(
        Submission, models.CASCADE, primary_key=True, related_name="content", db_constraint=False
    )
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    submitted_at = models.DateTimeField(null=True)
    job_type = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty text
    job_group = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty label
    name_prefix = models.CharField(max_length=255, help_text="Beginning of the names of all jobs.")
    name_rest = models.CharField(max_length=8, choices=NameRest, help_text="What follows on it.")
    labels = ArrayField(
        models.CharField(max_length=255),
        null=True,
        help_text="Labels of jobs that differ in them; empty: there are more than 16.",
    )
    name_stems = ArrayField(
        models.CharField(max_length=255),
        null=True,
        help_text="Names, without digits at their ends, of jobs that differ in them; empty: there are more than 16.",
    )
    first_job_id = models.BigIntegerField()
    last_job_id = models.BigIntegerField()

    objects = OwnedQuerySet.as_manager()

    class Meta:
        indexes = [
            # Of an owner, also in the order of their jobs: ``queries.submissions.of_owner``.
            models.Index(name="content_of_owner", fields=["owner", "first_job_id"]),
            models.Index(name="content_of_group", fields=["group"]),
            models.Index(name="content_with_label", fields=["job_group"]),
            models.Index(name="content_with_name", fields=["name_prefix"], opclasses=["varchar_pattern_ops"]),
            models.Index(name="content_since", fields=["submitted_at"]),
            # Of submissions with few values; no other one writes them. Without lists of pending entries, which each
            # query would read.
            GinIndex(
                name="content_with_labels", fields=["labels"], fastupdate=False, condition=Q(labels__isnull=False)
            ),
            GinIndex(
                name="content_with_name_stems",
                fields=["name_stems"],
                fastupdate=False,
                condition=Q(name_stems__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"content of submission {self.submission_id}"


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
    """One row is one job, from its submission until long after its end.

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
    # No constraint and no index: it is looked up for each job that is submitted, and no page starts from it.
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
        stored: dict[str, Any] = self.stored_description.description
        # Descriptions stored by versions before this one have a name, which is that of the job or of an equal one.
        return {**stored, "job_name": self.job_name}

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

    def _tails_of_attempt(self) -> "Iterator[OutputTail]":
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


# ---- What attempts leave (ADR 63) ------------------------------------------------------------------------------------


class OutputTail(models.Model):
    """One row is the last lines of an attempt whose pilot has sent some; it stays when the job is rescheduled."""

    pk = models.CompositePrimaryKey("job_id", "attempt")
    # No constraint: written while the row of the job is locked, which is never deleted. The primary key is the index.
    job = models.ForeignKey(Job, models.CASCADE, related_name="output_tails", db_index=False, db_constraint=False)
    attempt = models.SmallIntegerField(help_text="Number of times that the job had been rescheduled; the first is 0.")
    std_output = CompressedTextField(null=True, help_text="Last lines of standard output; null: none were sent.")
    std_error = CompressedTextField(null=True, help_text="Last lines of standard error; null: none were sent.")

    def __str__(self) -> str:
        return f"output of job {self.job_id}, attempt {self.attempt}"


class UsageSamples(models.Model):
    """One row is the usage of the payload of an attempt over time, thinned out (``matching/sql/attempts.sql``)."""

    pk = models.CompositePrimaryKey("job_id", "attempt")
    # As for OutputTail.
    job = models.ForeignKey(Job, models.CASCADE, related_name="usage_samples", db_index=False, db_constraint=False)
    attempt = models.SmallIntegerField(help_text="Number of times that the job had been rescheduled; the first is 0.")
    step_s = models.IntegerField(
        help_text="Seconds since the start are divided into steps; each has one sample at most."
    )
    samples = ArrayField(
        models.SmallIntegerField(),
        help_text="Four numbers of each sample, as in ``domain.samples``, and room for later ones.",
    )

    def __str__(self) -> str:
        return f"usage of job {self.job_id}, attempt {self.attempt}"

    @property
    def taken(self) -> list[Sample]:
        """The samples, by time."""
        return samples_of(self.samples, step_s=self.step_s)


# ---- Numbers of jobs (ADR 53) ----------------------------------------------------------------------------------------


class CountOfJobs(models.Model):
    """One row is the number of jobs with the same properties.

    Only ``services.counting.add_changes`` writes rows. They lack the changes of the last seconds: queries read the view
    of the same name with ``Current``, which has both, and sum up ``jobs``.
    """

    # No constraints: these are copies from the rows of jobs.
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    status = models.CharField(max_length=16)
    jobs = models.BigIntegerField()

    objects = OwnedQuerySet.as_manager()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.jobs} {self.status}"


class CountByJobType(CountOfJobs):
    """Jobs of an owner in a group, by type, status and exit code."""

    job_type = models.CharField(max_length=255)
    exit_code = models.IntegerField(null=True)

    class Meta:
        abstract = True


class CountBySite(CountOfJobs):
    """Jobs of an owner in a group, by site of the last match and status."""

    site = models.ForeignKey(Site, models.DO_NOTHING, null=True, related_name="+", db_index=False, db_constraint=False)

    class Meta:
        abstract = True


class CountBySubmission(CountOfJobs):
    """Jobs of a submission, by status and exit code."""

    submission = models.ForeignKey(Submission, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    exit_code = models.IntegerField(null=True)

    class Meta:
        abstract = True


class JobCount(CountByJobType):
    """Numbers of jobs by owner, group, type, status and exit code."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="job_count_is_one_row",
                fields=["owner", "group", "job_type", "status", "exit_code"],
                nulls_distinct=False,
            ),
        ]


class SiteJobCount(CountBySite):
    """Numbers of jobs by owner, group, site and status."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="site_job_count_is_one_row", fields=["owner", "group", "site", "status"], nulls_distinct=False
            ),
        ]
        # Leased jobs of a site, which a throttle counts without an advertisement.
        indexes = [models.Index(name="job_count_of_site", fields=["site", "status"])]


class SubmissionJobCount(CountBySubmission):
    """Numbers of jobs by submission, status and exit code; a submission is in one group of one owner."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="submission_job_count_is_one_row",
                fields=["submission", "owner", "group", "status", "exit_code"],
                nulls_distinct=False,
            ),
        ]


class CurrentJobCount(CountByJobType):
    """View of JobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentjobcount"


class CurrentSiteJobCount(CountBySite):
    """View of SiteJobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentsitejobcount"


class CurrentSubmissionJobCount(CountBySubmission):
    """View of SubmissionJobCount with the changes that are not added to it yet; its rows are to be summed up."""

    class Meta:
        managed = False
        db_table = "jobs_currentsubmissionjobcount"


class CurrentContentJobCount(CountBySubmission):
    """View of CurrentSubmissionJobCount with what the jobs of the submission have in common."""

    submitted_at = models.DateTimeField(null=True)
    job_type = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty text
    job_group = models.CharField(max_length=255, null=True)  # noqa: DJ001 - null is not the empty label
    name_prefix = models.CharField(max_length=255)
    name_rest = models.CharField(max_length=8)

    class Meta:
        managed = False
        db_table = "jobs_currentcontentjobcount"


class JobCountChange(models.Model):
    """One row is a change of the numbers of jobs, written by triggers of the table of jobs and soon added to these.

    The table has no index: all rows are read at once.
    """

    submission_id = models.UUIDField()
    owner_id = models.BigIntegerField()
    group_id = models.BigIntegerField()
    vo_id = models.BigIntegerField()
    job_type = models.CharField(max_length=255)
    status_before = models.CharField(max_length=16, null=True, help_text="Null: the jobs are new.")  # noqa: DJ001
    site_before_id = models.BigIntegerField(null=True)
    exit_code_before = models.IntegerField(null=True)
    status_after = models.CharField(max_length=16, null=True, help_text="Null: the jobs are deleted.")  # noqa: DJ001
    site_after_id = models.BigIntegerField(null=True)
    exit_code_after = models.IntegerField(null=True)
    jobs = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.jobs} from {self.status_before} to {self.status_after}"


# ---- Accounting (ADR 64) ---------------------------------------------------------------------------------------------


class BucketOfJobs(models.Model):
    """One row is what jobs with the same properties did in one hour, one day, or one week.

    Only ``services.accounting`` writes rows. Each start and each end is in three: of its hour, its day and its week.
    """

    width_s = models.IntegerField(help_text="Length of the bucket, as in ``domain.accounting.Width``.")
    begun_at = models.DateTimeField()

    started = models.IntegerField(db_default=0, help_text="Starts of payloads; one that stalls and goes on is one.")
    done = models.IntegerField(db_default=0)
    failed = models.IntegerField(db_default=0)
    killed = models.IntegerField(db_default=0)
    cpu_s = models.FloatField(db_default=0.0, help_text="CPU time of the jobs that ended.")
    wall_s = models.FloatField(db_default=0.0, help_text="Wall-clock time times processors of the jobs that ended.")
    # Sums over the samples of the bucket, whose number is in JobBucketPeriod.
    running = models.FloatField(db_default=0.0, help_text="Jobs that a pilot had.")
    waiting = models.FloatField(db_default=0.0, help_text="Other jobs in a task queue, or about to be.")
    waiting_unmatched = models.FloatField(db_default=0.0, help_text="Jobs in a task queue that no batch queue fits.")
    waiting_for_data = models.FloatField(db_default=0.0, help_text="Jobs of which no site held all input data.")
    waiting_for_room = models.FloatField(db_default=0.0, help_text="Jobs whose quota of waiting jobs was full.")
    held = models.FloatField(db_default=0.0)

    class Meta:
        abstract = True


class JobBucket(BucketOfJobs):
    """The jobs of an owner in a group, at one site and of one type."""

    # No constraints: these are copies from the rows of jobs.
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    site = models.ForeignKey(
        Site,
        models.DO_NOTHING,
        null=True,
        related_name="+",
        db_index=False,
        db_constraint=False,
        help_text="Null: the jobs had no site, as while they wait.",
    )
    job_type = models.CharField(max_length=255)

    objects = OwnedQuerySet.as_manager()

    class Meta:
        constraints = [
            # Also finds the rows of a span.
            models.UniqueConstraint(
                name="job_bucket_is_one_row",
                fields=["width_s", "begun_at", "owner", "group", "site", "job_type"],
                nulls_distinct=False,
            ),
        ]

    def __str__(self) -> str:
        return f"bucket {self.pk}"


class JobBucketSum(BucketOfJobs):
    """All jobs with one value of one property: sums of JobBucket, for operators, who see all."""

    grouping = models.CharField(max_length=8, help_text="The property, as in ``domain.accounting.Grouping``.")
    key = models.BigIntegerField(help_text="The site, user or group; 0: none, or the property is the type.")
    job_type = models.CharField(max_length=255, help_text="Empty: none, or the property is another.")

    class Meta:
        constraints = [
            # Also finds the rows of a span.
            models.UniqueConstraint(
                name="job_bucket_sum_is_one_row",
                fields=["width_s", "grouping", "begun_at", "key", "job_type"],
            ),
        ]

    def __str__(self) -> str:
        return f"sum {self.pk}"


class JobBucketPeriod(models.Model):
    """One row is one hour, day or week in which levels were sampled."""

    pk = models.CompositePrimaryKey("width_s", "begun_at")
    width_s = models.IntegerField()
    begun_at = models.DateTimeField()
    samples = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.samples} samples from {self.begun_at}"


class Accounting(models.Model):
    """The one row is the state of the accounting of jobs; without it, accounting has not begun."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    seen = models.TextField(help_text="Position in the stream of changes: a snapshot (ADR 62).")
    began_at = models.DateTimeField(help_text="What happened earlier is in no bucket.")
    sampled_at = models.DateTimeField(null=True, help_text="Last sample of levels.")
    runs = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.CheckConstraint(name="accounting_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"accounting since {self.began_at}"


class JobHistory(models.Model):
    """One row is one change of a job's status.

    The primary key of the table is (job, id): the page of a job needs that order, and a second index, of the ids alone,
    would be written with each change of a status.
    """

    # No constraint: a line is written right after its job, whose row is never deleted; checking and locking it would
    # cost every change of a status as much as the line itself.
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

    job = models.ForeignKey(Job, models.CASCADE, related_name="commands", db_index=False)
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


class SiteLayout(models.Model):
    """The one row is a digest of the sites of storage elements at the last re-evaluation of jobs because of it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    digest = models.BinaryField(max_length=32, help_text="SHA-256 of the content.")

    class Meta:
        constraints = [models.CheckConstraint(name="site_layout_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class Sandbox(models.Model):
    """One row is one stored content, a single file or an archive, named by its SHA-256."""

    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the content, in hexadecimal.")
    size_bytes = models.PositiveBigIntegerField()
    is_archive = models.BooleanField(
        help_text="Whether it is unpacked in the job's directory; a single file is stored there as it is."
    )
    created_at = models.DateTimeField()
    check_use_at = models.DateTimeField(default=timezone.now, db_index=True, help_text="Next check whether it is used.")

    def __str__(self) -> str:
        return f"sha256:{self.digest}"


class SandboxUpload(models.Model):
    """One row is the upload of a content by a user under a name, which lets the user name it in jobs."""

    sandbox = models.ForeignKey(Sandbox, models.CASCADE, related_name="uploads", db_index=False)
    owner = models.ForeignKey(User, models.CASCADE, related_name="sandbox_uploads")
    file_name = models.CharField(max_length=255)
    is_output = models.BooleanField(default=False, help_text="Of a job, stored by its pilot; not in the user's quota.")
    uploaded_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="a_user_uploads_a_content_under_a_name_once", fields=["sandbox", "owner", "file_name"]
            ),
        ]
        indexes = [
            # Serves the outputs of one job, which share its name.
            models.Index(name="output_of_job", fields=["file_name"], condition=models.Q(is_output=True)),
        ]

    def __str__(self) -> str:
        return self.file_name


class InputSandbox(models.Model):
    """One row is one input sandbox of a job, with its file name for the payload."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="input_sandboxes", db_index=False)
    sandbox = models.ForeignKey(Sandbox, models.PROTECT, related_name="input_of")
    file_name = models.CharField(max_length=255)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_job_names_a_sandbox_once", fields=["job", "sandbox"]),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} of job {self.job_id}"


class SavedSyntax(models.TextChoices):
    """The language of a saved description; that of the portal's form is JSON, too."""

    FORM = "form", "Form"
    JDL = "jdl", "JDL"
    CFG = "cfg", "CFG"
    JSON = "json", "JSON"


class SavedDescription(models.Model):
    """One row is a description that a user saved under a name, as the user wrote it."""

    owner = models.ForeignKey(User, models.CASCADE, related_name="saved_descriptions", db_index=False)
    name = models.CharField(max_length=64)
    syntax = models.CharField(max_length=4, choices=SavedSyntax)
    text = models.TextField()
    files = models.JSONField(default=list, help_text="[reference, name] of each sandbox that goes along.")
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="saved_description_has_a_name_of_its_own", fields=["owner", "name"]),
            models.CheckConstraint(
                name="saved_description_has_known_syntax", condition=Q(syntax__in=SavedSyntax.values)
            ),
        ]

    def __str__(self) -> str:
        return self.name
