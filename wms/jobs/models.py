"""The demand: jobs with their history, the requests that brought them, and their sandboxes."""

from typing import Self
from uuid import uuid4

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.utils import timezone

from resources.models import ComputingElement, Queue, Site
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.data import WAITS_FOR_ROOM
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus

LEASED_STATUSES = sorted(LEASED)
STATUS_CHOICES = [(s, s) for s in JobStatus]
#: Where a job is that has been looked at and that no pilot has.
PLACED = [JobStatus.CHECKING, JobStatus.WAITING]
_PLACED_WITH_INPUT_DATA = Q(input_sites__isnull=False, status__in=PLACED)


class Submission(models.Model):
    """One row is one request that submitted jobs; its id is the job-group id of all of them (DESIGN §3.1)."""

    id = models.UUIDField(primary_key=True, default=uuid4, editable=False)
    owner = models.ForeignKey(User, models.PROTECT, related_name="submissions", db_index=False)
    group = models.ForeignKey(Group, models.PROTECT, related_name="submissions", db_index=False)
    submitted_at = models.DateTimeField()
    request_id = models.UUIDField(null=True, help_text="Asked again by the same owner: the same answer, nothing new.")
    body_digest = models.BinaryField(max_length=32, help_text="SHA-256 of the request; another body is a conflict.")
    answer = models.JSONField(null=True, help_text="Given again to the same request_id.")

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


class JobQuerySet(models.QuerySet["Job"]):
    """Which jobs one may see, and which of them one asks for."""

    def visible_to(self, actor: User) -> Self:
        """Keep the actor's own jobs, those of its JOB_SHARING groups and those of the VOs it manages."""
        if actor.is_operator:
            return self
        sharing = Group.objects.sharing().filter(memberships__user=actor)
        return self.filter(Q(owner=actor) | Q(group__in=sharing) | Q(vo__in=VO.objects.filter(managers=actor)))

    def changeable_by(self, actor: User) -> Self:
        """Keep those that the actor may act on: whoever may see a job may, but not by a token of scope ``submit``."""
        return self.filter(owner=actor) if actor.acts_on_own_jobs_only else self.visible_to(actor)

    def placed_with_input_data(self) -> Self:
        """Keep those that wait, or are Checking, and read files."""
        return self.filter(_PLACED_WITH_INPUT_DATA)


class Job(models.Model):
    """One row is one job, from its submission until long after its end.

    NB: the status is in an index, so each change of it writes every index of the table: each must serve a screen.
    """

    submission = models.ForeignKey(Submission, models.PROTECT, related_name="jobs")
    # No constraints: these are copies of what the submission's row says, and that row has them. For ten thousand jobs
    # the database would look up the same owner, group and VO ten thousand times.
    owner = models.ForeignKey(User, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False)
    vo = models.ForeignKey(
        VO, models.PROTECT, related_name="jobs", db_index=False, db_constraint=False, help_text="The group's."
    )

    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    minor_status = models.CharField(max_length=255, blank=True)
    application_status = models.CharField(max_length=255, blank=True)

    job_name = models.CharField(max_length=255, blank=True)
    job_group = models.CharField(max_length=255, blank=True, help_text="Free label of the user.")
    job_type = models.CharField(max_length=255)
    priority = models.SmallIntegerField(help_text="User priority, 0 to 10.")
    description = models.JSONField(help_text="Everything that was asked for, in the form of the REST contract.")
    submit_pools = ArrayField(
        models.CharField(max_length=255), default=list, help_text="Asked for, or registered for its requirements."
    )

    input_sites = ArrayField(
        models.CharField(max_length=128),
        null=True,
        help_text="That hold all of its input data, as of when it was put into a queue; null: it has none.",
    )

    reschedules = models.PositiveSmallIntegerField(default=0, help_text="How often it went back to its queue.")
    held_back = models.JSONField(
        null=True,
        editable=False,
        help_text="While it is Held or Checking: when and where it may be matched after that.",
    )
    # No constraints: the claim, which writes these, has read both rows in the same transaction. Were they locked, as
    # constraints do, all claims for one site would write the same row.
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
    # No foreign key: jobs do not know what a pilot is.
    pilot_id = models.BigIntegerField(null=True, help_text="That holds or held it last.")

    submitted_at = models.DateTimeField()
    status_changed_at = models.DateTimeField()
    matched_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True)

    exit_code = models.IntegerField(null=True)
    cpu_s = models.FloatField(null=True, help_text="Used by the payload, all processes.")
    wall_s = models.FloatField(null=True)
    max_memory_mb = models.FloatField(null=True, help_text="Highest that was reported.")
    max_disk_mb = models.FloatField(null=True)
    std_output_tail = models.TextField(blank=True, help_text="Last lines, as of the last heartbeat.")
    # No index: nobody asks whose output a sandbox is.
    output_sandbox = models.ForeignKey("Sandbox", models.PROTECT, null=True, related_name="+", db_index=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="job_priority_is_0_to_10", condition=Q(priority__range=(0, 10))),
            models.CheckConstraint(
                name="job_status_is_known_and_ended_at_set_iff_final",
                condition=Q(status__one_of=sorted(FINAL), ended_at__isnull=False)
                | Q(status__one_of=sorted(set(JobStatus) - FINAL), ended_at__isnull=True),
            ),
        ]
        indexes = [
            models.Index(name="job_of_owner", fields=["owner", "-id"]),  # "my jobs", newest first
            models.Index(name="job_of_status", fields=["status", "-id"]),  # lists and summaries by status
            models.Index(name="job_of_vo_and_group", fields=["vo", "group"]),  # managers' lists; the filter by group
            # Lists and summaries of a site. Without the jobs that wait: they are at none, and come by thousands.
            models.Index(name="job_of_site", fields=["site"], condition=Q(site__isnull=False)),
            # What goes on at a site, which a throttle counts when nobody advertises it.
            models.Index(
                name="job_held_at_site", fields=["site", "status"], condition=Q(status__one_of=LEASED_STATUSES)
            ),
            # The jobs that wait for a file of which a replica came or went, and page by page all that wait for any.
            GinIndex(
                KeyTransform("input_data", "description"), name="job_of_input_file", condition=_PLACED_WITH_INPUT_DATA
            ),
            models.Index(name="job_with_input_data", fields=["id"], condition=_PLACED_WITH_INPUT_DATA),
            # Whether a job needs an output sandbox that is about to be removed.
            models.Index(
                name="job_of_output_sandbox", fields=["output_sandbox"], condition=Q(output_sandbox__isnull=False)
            ),
            # The jobs to be let in when a quota of waiting jobs has room, by what quotas look at.
            models.Index(
                name="job_that_waits_for_room",
                fields=["group", "owner", "job_type", "id"],
                condition=Q(status=JobStatus.CHECKING, minor_status=WAITS_FOR_ROOM),
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}"


class JobHistory(models.Model):
    """One row is one change of a job's status."""

    # No constraint: a line is written in the statement after the one that wrote its job, whose row never goes; to look
    # it up, and lock it, would cost every change of a status as much as the line itself.
    job = models.ForeignKey(Job, models.CASCADE, related_name="history", db_index=False, db_constraint=False)
    changed_at = models.DateTimeField()
    status = models.CharField(max_length=16, choices=STATUS_CHOICES)
    minor_status = models.CharField(max_length=255, blank=True)
    application_status = models.CharField(max_length=255, blank=True)
    source = models.CharField(max_length=150, help_text="Who or what changed it: a user, a pilot, an agent.")

    class Meta:
        verbose_name_plural = "job history"
        indexes = [models.Index(name="history_of_job", fields=["job", "id"])]  # one job's page, oldest first

    def __str__(self) -> str:
        return f"{self.status} at {self.changed_at}"


class JobCommand(models.Model):
    """One row is one order to the pilot that holds the job, repeated with each answer until acknowledged."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="commands", db_index=False)
    name = models.CharField(max_length=16, help_text="kill, peek or drain.")
    arguments = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    acknowledged_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [
            # Serves each heartbeat: what is still to be obeyed.
            models.Index(name="command_to_be_obeyed", fields=["job"], condition=Q(acknowledged_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.pk}"


class SiteLayout(models.Model):
    """The one row is which storage elements belonged to which sites when jobs were last looked at because of it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    digest = models.BinaryField(max_length=32, help_text="SHA-256.")

    class Meta:
        constraints = [models.CheckConstraint(name="site_layout_has_one_row", condition=Q(id=1))]

    def __str__(self) -> str:
        return bytes(self.digest).hex()


class Sandbox(models.Model):
    """One row is one stored content, a single file or an archive, named by its SHA-256."""

    digest = models.CharField(max_length=64, unique=True, help_text="SHA-256 of the content, in hexadecimal.")
    size_bytes = models.PositiveBigIntegerField()
    is_archive = models.BooleanField(help_text="Unpacked in the job's directory; a single file is put there as it is.")
    created_at = models.DateTimeField()
    check_use_at = models.DateTimeField(
        default=timezone.now, db_index=True, help_text="When to look next whether anything needs it."
    )

    def __str__(self) -> str:
        return f"sha256:{self.digest}"


class SandboxUpload(models.Model):
    """One row says that a user uploaded a content, and under which name; who did may name it in a job."""

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
            # Of the outputs of one job, whose name they have.
            models.Index(name="output_of_job", fields=["file_name"], condition=models.Q(is_output=True)),
        ]

    def __str__(self) -> str:
        return self.file_name


class InputSandbox(models.Model):
    """One row is one sandbox that a job is given, under the name that the payload will see."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="input_sandboxes", db_index=False)
    sandbox = models.ForeignKey(Sandbox, models.PROTECT, related_name="input_of")
    file_name = models.CharField(max_length=255)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_job_names_a_sandbox_once", fields=["job", "sandbox"]),
        ]

    def __str__(self) -> str:
        return f"{self.file_name} of job {self.job_id}"
