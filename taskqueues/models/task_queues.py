"""Task queues, and the jobs in them."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, Value
from django.db.models.functions import Coalesce, Greatest

from taskqueues.domain.shares import USER_PRIORITIES
from wms.accounts.models import VO, Group, Membership, User


def requirement_list() -> "ArrayField[list[str], list[str]]":
    """Return the column of a sorted, duplicate-free list; empty: the jobs accept anything."""
    return ArrayField(models.CharField(max_length=255), default=list)


def no_jobs() -> list[int]:
    """Return the job counts of an empty task queue, by user priority."""
    return [0] * USER_PRIORITIES


def _is_trusted() -> Q:
    """Return the condition that the owner of a task queue is not suspended, and is a member of its group (ADR 39)."""
    members = Membership.objects.filter(user=OuterRef("owner"), group=OuterRef("group"))
    return Q(Exists(members), owner__is_active=True)


class TaskQueueQuerySet(models.QuerySet["TaskQueue"]):
    """Task queues by contents and visibility."""

    def with_jobs(self) -> Self:
        """Keep the queues in which a job waits."""
        return self.filter(Exists(QueuedJob.objects.filter(task_queue=OuterRef("pk"))))

    def trusted(self) -> Self:
        """Keep the queues whose owner is an active member of their group: only they are matched and share."""
        return self.filter(_is_trusted())

    def with_trust(self) -> Self:
        """Annotate each queue with ``trusted``: whether its owner is an active member of its group."""
        return self.annotate(trusted=ExpressionWrapper(_is_trusted(), output_field=BooleanField()))

    def visible_to(self, actor: User) -> Self:
        """Keep the queues of the VOs that the actor manages, the actor's own, and those of its sharing groups."""
        if actor.is_operator:
            return self
        sharing = Group.objects.sharing().filter(memberships__user=actor)
        return self.filter(Q(owner=actor) | Q(vo__in=actor.managed_vos.all()) | Q(group__in=sharing))


class TaskQueue(models.Model):
    """A task queue: a set of identical requirements with at least one waiting job, or just emptied (TQM)."""

    signature = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the canonical requirements.")
    owner = models.ForeignKey(User, models.PROTECT, related_name="task_queues")
    group = models.ForeignKey(Group, models.PROTECT, related_name="task_queues")
    vo = models.ForeignKey(
        VO, models.PROTECT, related_name="task_queues", verbose_name="VO", help_text="VO of the group."
    )
    setup = models.CharField(max_length=64)
    cpu_time_s = models.PositiveIntegerField(help_text="CPU segment, in reference-core seconds per core.")
    submit_pools = requirement_list()
    pilot_types = requirement_list()
    sites = requirement_list()
    banned_sites = requirement_list()
    grid_ces = requirement_list()
    grid_middlewares = requirement_list()
    platforms = requirement_list()
    job_type = models.CharField(max_length=255)
    tags = requirement_list()
    processors = models.PositiveIntegerField()
    memory_mb = models.PositiveIntegerField(help_text="Rounded up; 0: no requirement.")
    wall_time_s = models.PositiveIntegerField(default=0, help_text="Rounded up; 0: no requirement.")
    gpus = models.PositiveIntegerField("GPUs", default=0)
    disk_mb = models.PositiveIntegerField(default=0, help_text="Rounded up; 0: no requirement.")
    container = models.BooleanField(default=False, help_text="Whether the jobs run in containers.")
    # Longer than in a description, because NFC may lengthen a text.
    software: "ArrayField[list[str], list[str]]" = ArrayField(
        models.CharField(max_length=1024),
        default=list,
        help_text="Software published by some queue of the VO must be published where the jobs run.",
    )
    priority = models.FloatField(help_text="Part of the group's share; a task queue with 0 is never drawn (PRI).")
    # As of the last evaluation of its group; used by new task queues and the index, which cannot count a million rows.
    weight = models.FloatField(default=0.0, help_text="Sum of the weights of its waiting jobs, when last evaluated.")
    jobs_of_level = ArrayField(
        models.PositiveIntegerField(),
        default=no_jobs,
        help_text="Waiting jobs of user priority 0 to 10, when last evaluated.",
    )
    created_at = models.DateTimeField()

    objects = TaskQueueQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="task_queue_priority_is_not_negative", condition=Q(priority__gte=0)),
            models.CheckConstraint(
                name="task_queue_bans_no_site_beside_a_list_of_sites", condition=Q(sites=[]) | Q(banned_sites=[])
            ),
        ]

    def __str__(self) -> str:
        return f"task queue {self.pk}"


class QueuedJobQuerySet(models.QuerySet["QueuedJob"]):
    """Queued jobs by availability."""

    def free_at(self, queue_id: int | None, *, now: datetime) -> Self:
        """Keep the jobs that pilots of a queue (None: of any) may get, on at least one host."""
        elsewhere = Q(avoided_until=None) | Q(avoided_until__lte=now) | Q(avoided_host__isnull=False)
        if queue_id is None:
            return self.filter(Q(is_held_back=False) | Q(not_before__lte=now))
        elsewhere |= ~Q(avoided_queue_ids__contains=[queue_id])
        return self.filter(Q(is_held_back=False) | (Q(not_before__lte=now) & elsewhere))


class QueuedJob(models.Model):
    """One job that waits in a task queue; the row is deleted when the job is matched."""

    # No foreign key: jobs are above this app.
    job_id = models.BigIntegerField(primary_key=True)
    task_queue = models.ForeignKey(TaskQueue, models.PROTECT, related_name="queued_jobs", db_index=False)
    user_priority = models.PositiveSmallIntegerField(help_text="0 to 10, as set by the user.")
    # In nearly all rows the following columns are null and take no space. A row is written once: the database's clock
    # passes these times, and nothing clears them.
    is_held_back = models.BooleanField(
        default=False,
        db_default=False,
        help_text="Whether the columns below restrict when and where it may be matched.",
    )
    not_before = models.DateTimeField(null=True, help_text="No pilot gets it before; by the database's clock.")
    avoided_until = models.DateTimeField(null=True, help_text="Time until which the places below do not get it.")
    avoided_queue_ids = ArrayField(
        models.BigIntegerField(), null=True, help_text="Queues that gave it back, the latest last."
    )
    avoided_host = models.CharField(  # noqa: DJ001 - an empty text would occupy room in every row
        max_length=255, null=True, help_text="Only host avoided at these queues; none: the whole queues are avoided."
    )

    objects = QueuedJobQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="user_priority_is_0_to_10", condition=Q(user_priority__range=(0, 10))),
            models.CheckConstraint(
                name="a_job_that_is_held_back_says_until_when",
                condition=Q(is_held_back=True, not_before__isnull=False)
                | Q(is_held_back=False, not_before__isnull=True, avoided_until__isnull=True),
            ),
            models.CheckConstraint(
                name="a_place_is_avoided_until_some_time",
                condition=Q(avoided_until__isnull=True, avoided_queue_ids__isnull=True, avoided_host__isnull=True)
                | Q(avoided_until__isnull=False, avoided_queue_ids__isnull=False),
            ),
        ]
        indexes = [
            # For the claim: the ten oldest jobs of one level of one task queue; those held back are separate, and are
            # not read on the way to the others. The column fits between two others: the index is no larger for it.
            models.Index(
                name="queued_job_oldest_of_its_kind", fields=["task_queue", "user_priority", "is_held_back", "job_id"]
            ),
            # Held-back jobs by the place that they avoid: a claim skips all that avoid the same place in one step. In
            # both of these indexes other jobs take no space.
            models.Index(
                "task_queue",
                "user_priority",
                Coalesce("avoided_queue_ids", Value([], output_field=ArrayField(models.BigIntegerField()))),
                Coalesce("avoided_host", Value("")),
                "not_before",
                "job_id",
                name="queued_job_by_avoided_place",
                condition=Q(is_held_back=True),
            ),
            # Held-back jobs that any place may get from some time on.
            models.Index(
                "task_queue",
                "user_priority",
                Greatest("not_before", "avoided_until"),
                "job_id",
                name="queued_job_open_to_all",
                condition=Q(is_held_back=True),
            ),
        ]

    def __str__(self) -> str:
        return f"job {self.job_id}"
