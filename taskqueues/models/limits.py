"""Limits of the jobs in a scope, with their counters."""

from collections.abc import Iterable

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q

from resources.models import ComputingElement, Site
from taskqueues.domain.limits import LARGEST_BURST, LONGEST_DELAY_S
from wms.accounts.models import VO, Group, User
from wms.kernel.db import DatabaseNow


class Limit(models.Model):
    """A limit of the jobs in a scope: those to which everything that it names applies.

    Triggers of ``matching`` create its counters in the transaction that writes it (ADR 17).
    """

    vo = models.ForeignKey(VO, models.CASCADE, null=True, blank=True, related_name="+", verbose_name="VO")
    site = models.ForeignKey(Site, models.CASCADE, null=True, blank=True, related_name="+")
    ce = models.ForeignKey(ComputingElement, models.CASCADE, null=True, blank=True, related_name="+", verbose_name="CE")
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

    def concerned_vo_ids(self) -> Iterable[int]:
        """Return the VO whose jobs it limits, or those that its site serves.

        A user, or a type of jobs, may be of any VO. Such a limit at a site concerns the only VO that the site serves,
        whose managers may change it, and else none.
        """
        if self.vo_id is not None:
            return [self.vo_id]
        if self.group is not None:
            return [self.group.vo_id]
        site = self.ce.site if self.ce is not None else self.site
        if site is None:
            return []
        if self.user_id is None and not self.job_type:
            return site.concerned_vo_ids()
        served = [vo.pk for vo in site.vos.all()]
        return served if len(served) == 1 else []


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
