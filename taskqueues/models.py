"""Task queues, the jobs in them, their priorities, limits, and RFC 7's submit pools."""

from datetime import datetime
from typing import Self

from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import BooleanField, Exists, ExpressionWrapper, OuterRef, Q, Value
from django.db.models.functions import Coalesce, Greatest, Now

from resources.models import ComputingElement, Queue, Site
from taskqueues.domain.limits import LARGEST_BURST, LONGEST_DELAY_S
from taskqueues.domain.weights import USER_PRIORITIES
from wms.accounts.models import VO, Group, User
from wms.accounts.models import Membership as GroupMembership
from wms.kernel.db import DatabaseNow


def requirement_list() -> "ArrayField[list[str], list[str]]":
    """Return the column of a sorted, duplicate-free list; empty: the jobs accept anything."""
    return ArrayField(models.CharField(max_length=255), default=list)


def no_jobs() -> list[int]:
    """Return the job counts of an empty task queue, by user priority."""
    return [0] * USER_PRIORITIES


def _is_trusted() -> Q:
    """Return the condition that the owner of a task queue is not suspended, and is a member of its group (ADR 39)."""
    members = GroupMembership.objects.filter(user=OuterRef("owner"), group=OuterRef("group"))
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
    vo = models.ForeignKey(VO, models.PROTECT, related_name="task_queues", help_text="VO of the group.")
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


#: task_queue_id in the table of changes for a change of sites, queues, VOs or groups.
CONFIGURATION = 0


class XidField(models.BigIntegerField):  # type: ignore[type-arg]
    """A transaction number that never wraps around (PostgreSQL's xid8)."""

    def db_type(self, connection: object) -> str:  # noqa: ARG002 - Django's signature
        """Return the column's type."""
        return "xid8"


class CurrentXid(models.Func):
    """The number of the transaction that writes the row."""

    function = "pg_current_xact_id"
    template = "%(function)s()"
    output_field = XidField()


class TaskQueueChange(models.Model):
    """One change of a task queue by a transaction, for the indexes of all processes (ADR 14).

    Rows are only added, and removed after every index has read them. Their order is that of the transactions' numbers
    and snapshots, never that of their ids: a transaction may commit after one that began later.
    """

    xid = XidField(db_default=CurrentXid(), editable=False)
    # No foreign key: the task queue may have been removed.
    task_queue_id = models.BigIntegerField()
    user_priority = models.PositiveSmallIntegerField(
        null=True, help_text="Level whose number of jobs changed; none: the task queue's row must be read."
    )
    jobs = models.IntegerField(default=0, help_text="Jobs added; negative: removed.")
    counted_in = models.TextField(
        blank=True, default="", db_default="", help_text="Snapshot in which the row's jobs_of_level was counted."
    )
    changed_at = models.DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            models.Index(name="task_queue_change_xid", fields=["xid"]),  # changes not read by an index
        ]

    def __str__(self) -> str:
        return f"change of task queue {self.task_queue_id}"


class ChangedGroup(models.Model):
    """A group whose priorities must be recalculated because its task queues changed.

    Rows are only added and removed, never updated, so that submissions of one group do not wait for each other.
    """

    group = models.ForeignKey(Group, models.CASCADE, related_name="+", db_index=False)
    changed_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"group {self.group_id}"


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


class SubmitPool(models.Model):
    """A submit pool: a distinct set of requirements of a VO's jobs, with the queues that satisfy it (RFC7)."""

    id = models.CharField(max_length=64, primary_key=True, help_text="SHA-256 of VO and canonical requirements.")
    vo = models.ForeignKey(VO, models.CASCADE, related_name="submit_pools")
    requirements = models.JSONField(help_text="Canonical form.")
    queues: "models.ManyToManyField[Queue, models.Model]" = models.ManyToManyField(
        Queue, through="PoolQueue", related_name="submit_pools", blank=True
    )
    refreshed_at = models.DateTimeField()
    last_used_at = models.DateTimeField(help_text="Time at which a job that needs it was last queued.")

    def __str__(self) -> str:
        return self.id


class PoolQueue(models.Model):
    """Membership of a queue in a submit pool: the queue satisfies its requirements.

    NB: there are hundreds of thousands, and checks of foreign keys would take as long as the rest of a refresh. Whoever
    writes rows holds locks on the pool and the queue; triggers remove them with either (ADR 16).
    """

    pk = models.CompositePrimaryKey("submitpool", "queue")
    submitpool = models.ForeignKey(SubmitPool, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    queue = models.ForeignKey(Queue, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)

    class Meta:
        db_table = "taskqueues_submitpool_queues"
        indexes = [models.Index(name="pools_of_queue", fields=["queue"])]  # Serves pilots, and the trigger of queues.

    def __str__(self) -> str:
        return f"queue {self.queue_id} in {self.submitpool_id}"


class Limit(models.Model):
    """A limit of the jobs in a scope: those to which everything that it names applies.

    Triggers of ``matching`` create its counters in the transaction that writes it (ADR 17).
    """

    vo = models.ForeignKey(VO, models.CASCADE, null=True, blank=True, related_name="+")
    site = models.ForeignKey(Site, models.CASCADE, null=True, blank=True, related_name="+")
    ce = models.ForeignKey(ComputingElement, models.CASCADE, null=True, blank=True, related_name="+")
    group = models.ForeignKey(Group, models.CASCADE, null=True, blank=True, related_name="+")
    user = models.ForeignKey(User, models.CASCADE, null=True, blank=True, related_name="+")
    job_type = models.CharField(max_length=255, blank=True)
    running = models.PositiveIntegerField(null=True, blank=True, help_text="Jobs held by pilots at a time.")
    waiting = models.PositiveIntegerField(null=True, blank=True, help_text="Jobs in queues at a time.")
    cpu_s_per_day = models.PositiveBigIntegerField(
        null=True, blank=True, help_text="CPU time, in seconds, that jobs have reported in the last 24 hours."
    )
    delay_s = models.FloatField(
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(LONGEST_DELAY_S)],
        help_text="Mean seconds between two matches.",
    )
    burst = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(LARGEST_BURST)],
        help_text="Matches at once after a pause.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="limit_limits_something",
                condition=Q(running__isnull=False)
                | Q(waiting__isnull=False)
                | Q(cpu_s_per_day__isnull=False)
                | Q(delay_s__isnull=False),
            ),
            models.CheckConstraint(
                name="limit_on_waiting_names_no_place",
                condition=Q(waiting__isnull=True) | Q(site__isnull=True, ce__isnull=True),
            ),
            # With larger values the time at which an empty bucket is full again would be beyond all dates.
            models.CheckConstraint(
                name="limit_delay_is_at_most_a_day", condition=Q(delay_s__gte=0, delay_s__lte=LONGEST_DELAY_S)
            ),
            models.CheckConstraint(
                name="limit_burst_is_at_least_one_and_not_endless",
                condition=Q(burst__gte=1, burst__lte=LARGEST_BURST),
            ),
        ]

    def __str__(self) -> str:
        return f"limit {self.pk}"


class LimitSlot(models.Model):
    """A part of a limit on running jobs; claims that count in different parts do not wait for each other.

    The parts of a limit add up to it, and their used amounts to the jobs that pilots hold, less ``LimitEvent``s.
    """

    limit = models.ForeignKey(Limit, models.CASCADE, related_name="slots", db_index=False)
    number = models.PositiveSmallIntegerField()
    part = models.IntegerField(help_text="Number of this part of the limit.")
    used = models.IntegerField(help_text="Below 0 if jobs counted in another part have ended.")

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_limit_has_each_slot_once", fields=["limit", "number"]),
        ]

    def __str__(self) -> str:
        return f"slot {self.number} of limit {self.limit_id}"


class LimitCount(models.Model):
    """The counters of a limit as a whole: the time of its next match, and the CPU time of a day."""

    limit = models.OneToOneField(Limit, models.CASCADE, primary_key=True, related_name="count")
    # The generic cell rate algorithm: a token bucket in one number.
    free_at = models.DateTimeField(
        null=True, help_text="Time at which matches that keep the delay would have caught up."
    )
    cpu_s = models.FloatField(default=0.0, help_text="Reported in the last 24 hours, as of the last sum.")

    def __str__(self) -> str:
        return f"count of limit {self.limit_id}"


class LimitEvent(models.Model):
    """A job of a limit's scope that a pilot no longer holds, or CPU time that a job reported.

    Rows are only added, so that no change of a job's status waits for a claim; claims that find a limit full, and a
    periodic task, sum them up.
    """

    # No constraint: a limit may be removed while a job of its scope ends.
    limit = models.ForeignKey(Limit, models.CASCADE, related_name="+", db_index=False, db_constraint=False)
    jobs_left = models.SmallIntegerField(default=0, help_text="Jobs that a pilot no longer holds.")
    cpu_s = models.FloatField(default=0.0)
    happened_at = models.DateTimeField(db_default=DatabaseNow())

    class Meta:
        indexes = [models.Index(name="event_of_limit", fields=["limit"])]  # the sum of one limit

    def __str__(self) -> str:
        return f"event of limit {self.limit_id}"


class LimitHour(models.Model):
    """CPU time reported by the jobs of a limit's scope in one hour."""

    limit = models.ForeignKey(Limit, models.CASCADE, related_name="+", db_index=False)
    began_at = models.DateTimeField()
    cpu_s = models.FloatField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="a_limit_has_each_hour_once", fields=["limit", "began_at"]),
        ]

    def __str__(self) -> str:
        return f"{self.began_at} of limit {self.limit_id}"


class WaitingJobCount(models.Model):
    """View of the numbers of waiting jobs, to be summed up; the app of the jobs makes it from its counters (ADR 53)."""

    owner = models.ForeignKey(User, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    group = models.ForeignKey(Group, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    vo = models.ForeignKey(VO, models.DO_NOTHING, related_name="+", db_index=False, db_constraint=False)
    job_type = models.CharField(max_length=255)
    jobs = models.BigIntegerField()

    class Meta:
        managed = False
        db_table = "taskqueues_waitingjobcount"

    def __str__(self) -> str:
        return f"{self.jobs} of {self.job_type}"


class StaleSubmitPools(models.Model):
    """Submit pools of a VO that must be refreshed, because something that decides about their queues has changed.

    Rows are only added and removed, never updated, so that changes of resources do not wait.
    """

    vo = models.ForeignKey(VO, models.CASCADE, related_name="+", db_index=False)
    # No foreign key: the pool may have been removed before the refresh.
    pool = models.CharField(max_length=64, blank=True, help_text="Id of a new pool; empty: all of the VO.")
    changed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "stale submit pools"

    def __str__(self) -> str:
        return f"submit pools of VO {self.vo_id}"
