"""Queries about task queues, submit pools, shares and limits."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from heapq import nsmallest
from math import fsum
from types import MappingProxyType
from typing import TypedDict

from django.db.models import (
    Count,
    F,
    FloatField,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Sum,
)
from django.db.models.functions import Coalesce

from resources.models import Queue, Site
from resources.queries.possible_queues import PossiblePlaces
from taskqueues import sql
from taskqueues.domain.history import CorrectedShare, correct_shares
from taskqueues.domain.limits import Bounds, LimitScope
from taskqueues.domain.usage import UsageAmount, interval_of
from taskqueues.models import (
    GroupUsage,
    Limit,
    LimitEvent,
    LimitSlot,
    QueuedJob,
    SubmitPool,
    TaskQueue,
    UsageInterval,
    WaitingJobCount,
)
from wms.accounts.models import VO, Group, User

#: Smallest positive share: parts of a smaller one would be too small for PostgreSQL, which refuses to round to 0.
LEAST_SHARE = 1e-100
#: Queues of a submit pool in a list: pools that twenty thousand queues satisfy would make a page of 100s of megabytes.
MOST_QUEUES = 200


def jobs_in(task_queue_ids: Collection[int] | None = None) -> Mapping[int, int]:
    """Return the number of jobs in each of the task queues, of all if none are named; empty ones are missing."""
    everything = QueuedJob.objects.all()
    waiting = everything if task_queue_ids is None else everything.filter(task_queue__in=task_queue_ids)
    return dict(waiting.values_list("task_queue_id").annotate(jobs=Count("pk")).order_by("task_queue_id"))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeJobs:
    """The waiting jobs that some pilot may get now (ADR 33)."""

    #: {task queue: jobs}; without those that are delayed.
    of_task_queue: Mapping[int, int]
    #: {queue: {task queue: jobs of these that avoid it entirely}}.
    avoiding: Mapping[int, Mapping[int, int]]

    def none_at(self, queue_id: int) -> frozenset[int]:
        """Return the task queues all of whose jobs avoid a queue."""
        avoiding = self.avoiding.get(queue_id, {})
        return frozenset(pk for pk, jobs in avoiding.items() if jobs >= self.of_task_queue.get(pk, 0))


def free_jobs(*, now: datetime) -> FreeJobs:
    """Return the number of jobs in each task queue that are not held back; *now* is by the database's clock."""
    counts = QueuedJob.objects.values_list("task_queue_id").annotate(jobs=Count("pk")).order_by("task_queue_id")
    # Two statements, each answered from an index alone: no index serves both kinds of jobs.
    # Uses index: queued_job_oldest_of_its_kind, then queued_job_by_avoided_place
    of_task_queue = Counter(dict(counts.filter(is_held_back=False)))
    some_held_back = dict(counts.filter(is_held_back=True, not_before__lte=now))
    of_task_queue.update(some_held_back)
    avoiding: defaultdict[int, Counter[int]] = defaultdict(Counter)
    if some_held_back:
        rows = QueuedJob.objects.filter(
            task_queue__in=some_held_back, is_held_back=True, not_before__lte=now, avoided_until__gt=now
        ).filter(avoided_host=None)
        for task_queue_id, queue_ids in rows.values_list("task_queue_id", "avoided_queue_ids"):
            for queue_id in queue_ids or ():
                avoiding[queue_id][task_queue_id] += 1
    return FreeJobs(of_task_queue=of_task_queue, avoiding=dict(avoiding))


def pools_of_queue(queue: Queue, vo: VO) -> tuple[str, ...]:
    """Return the ids, sorted, of the VO's submit pools that *queue* belongs to (RFC7, getSubmitPoolsForQueue)."""
    # Uses index: pools_of_queue
    return tuple(SubmitPool.objects.filter(vo=vo, queues=queue).order_by("pk").values_list("pk", flat=True))


def pools_of_all(places: PossiblePlaces, vo: VO) -> tuple[str, ...]:
    """Return the ids, sorted, of the VO's submit pools that every possible place belongs to."""
    if not places.all_are_queues:
        return ()
    return tuple(sql.pools_of_all_queues([queue.pk for queue in places.queues], vo_id=vo.pk))


def pools_by_queue(vo: VO) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: as ``pools_of_queue``} of all queues; queues in no pool are missing."""
    return {queue_id: tuple(pools) for queue_id, pools in sql.pools_of_queues(vo_id=vo.pk).items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolQueues:
    """The queues of a submit pool."""

    count: int = 0
    #: The first MOST_QUEUES as site/ce/queue, sorted.
    names: Sequence[str] = ()


def queues_by_pool(pool_ids: Collection[str], vo: VO) -> Mapping[str, PoolQueues]:
    """Return {pool id: its queues at sites that serve *vo*}; pools without queues are missing.

    The rows of a thousand pools would be hundreds of thousands of objects, so each name is built once.
    """
    members = sql.members_of_pools(pool_ids)
    queue_ids = {queue_id for of_pool in members.values() for queue_id in of_pool}
    named = Queue.objects.filter(pk__among=queue_ids, ce__site__in=Site.objects.serving(vo))
    rows = named.values_list("ce__site__name", "ce__name", "name", "pk")
    in_order = sorted(("/".join(path), pk) for *path, pk in rows)
    position = {pk: number for number, (_, pk) in enumerate(in_order)}
    ranked = {pool: [position[pk] for pk in of_pool if pk in position] for pool, of_pool in members.items()}
    return {
        pool: PoolQueues(count=len(ranks), names=[in_order[rank][0] for rank in nsmallest(MOST_QUEUES, ranks)])
        for pool, ranks in ranked.items()
    }


def queues_of_pools(pool_ids: Collection[str], vo: VO) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: those of these pools of the VO that it belongs to, sorted}; queues in none are missing."""
    members = SubmitPool.objects.filter(pk__in=pool_ids, vo=vo, queues__isnull=False)
    pools: defaultdict[int, list[str]] = defaultdict(list)
    for queue_id, pool_id in members.order_by("pk").values_list("queues", "pk"):
        pools[queue_id].append(pool_id)
    return {queue_id: tuple(of_queue) for queue_id, of_queue in pools.items()}


def corrected_shares(
    *, vo_ids: Collection[int], instead: Mapping[int, float] = MappingProxyType({})
) -> Mapping[int, CorrectedShare]:
    """Return {group id: share corrected by history} of all groups of these VOs, whether or not it is applied.

    Args:
        vo_ids: the VOs.
        instead: {group id: priority} of those that are to be seen as if they had another one.
    """
    shares: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for group_id, vo_id, priority in Group.objects.filter(vo__in=vo_ids).values_list("pk", "vo_id", "priority"):
        shares[vo_id][group_id] = instead.get(group_id, priority)
    used_s = dict(GroupUsage.objects.filter(group__vo__in=vo_ids).values_list("group_id", "used_s"))
    return {
        group_id: share for of_vo in shares.values() for group_id, share in correct_shares(of_vo, used_s=used_s).items()
    }


def shares_in_effect(
    groups: Iterable[Group], *, instead: Mapping[int, float] = MappingProxyType({})
) -> Mapping[int, float]:
    """Return {group id: share that is divided over its task queues}: corrected if its VO does so.

    Args:
        groups: with their VOs loaded.
        instead: as for ``corrected_shares``.
    """
    groups = list(groups)
    vo_ids = {group.vo_id for group in groups if group.vo.history_fair_share}
    corrected = corrected_shares(vo_ids=vo_ids, instead=instead) if vo_ids else {}
    shares = {
        group.pk: corrected[group.pk].corrected if group.pk in corrected else instead.get(group.pk, group.priority)
        for group in groups
    }
    return {group_id: share if share >= LEAST_SHARE else 0.0 for group_id, share in shares.items()}


def parts_in_effect(vo: VO, *, instead: Mapping[int, float] = MappingProxyType({})) -> Mapping[int, float]:
    """Return {group id: its part of the VO's shares in effect, 0 to 1} of all groups of *vo*.

    It is the part of each while jobs of all groups wait; *instead* as for ``corrected_shares``.
    """
    shares = shares_in_effect(vo.groups.select_related("vo"), instead=instead)
    return parts_of(shares)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupParts:
    """The parts of a group in its VO, each 0 to 1."""

    group: Group
    #: Of the configured priorities.
    configured: float
    #: Of the shares in effect, which may be corrected by usage.
    in_effect: float
    #: Of the processor time under lease of the last day; None: the VO used none.
    delivered: float | None


def parts_of_groups(vo: VO, *, now: datetime) -> list[GroupParts]:
    """Return the parts of all groups of *vo*, those with the greatest priority first."""
    configured, in_effect = corrected_shares(vo_ids=[vo.pk]), parts_in_effect(vo)
    used = delivered_by_group(vo_ids=[vo.pk], since=interval_of(now - timedelta(days=1)))
    delivered = parts_of(used)
    return [
        GroupParts(
            group=group,
            configured=configured[group.pk].expected,
            in_effect=in_effect[group.pk],
            delivered=delivered.get(group.pk, 0.0) if any(used.values()) else None,
        )
        for group in vo.groups.order_by("-priority", "name")
    ]


def parts_of(amounts: Mapping[int, float]) -> Mapping[int, float]:
    """Return each amount divided by the sum of all, 0 to 1; 0 where all are 0."""
    all_amounts = fsum(amounts.values())
    return {key: amount / all_amounts if all_amounts else 0.0 for key, amount in amounts.items()}


def delivered(*, vo_id: int, since: datetime) -> Mapping[tuple[int, int], UsageAmount]:
    """Return {(group id, CPU segment): usage counted in the intervals from *since* on}, of a VO."""
    # Uses index: a_group_has_one_delivery_of_a_segment_in_an_interval
    rows = UsageInterval.objects.filter(group__vo=vo_id, began_at__gte=since).values_list("group_id", "cpu_segment_s")
    sums = rows.annotate(Sum("matches"), Sum("processor_s")).order_by("group", "cpu_segment_s")
    return {(group_id, segment): UsageAmount(matches, processor_s) for group_id, segment, matches, processor_s in sums}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """A limit on matches, and its usage."""

    #: With the rows that it names loaded.
    limit: Limit
    scope: LimitScope
    bounds: Bounds

    @property
    def is_closing(self) -> bool:
        """Return whether it closes a VO, a group or a place as a whole, until somebody changes it."""
        return self.bounds.are_closing and self.scope.owner_id is None and not self.scope.job_type


def limits_by_place() -> Mapping[tuple[int | None, int | None], Sequence[LimitScope]]:
    """Return the scopes of the limits on matches, by the primary keys of the site and CE that they name."""
    scopes: defaultdict[tuple[int | None, int | None], list[LimitScope]] = defaultdict(list)
    for limit in limits_on_matches():
        scopes[limit.site_id, limit.ce_id].append(scope_of(limit))
    return dict(scopes)


def limits_on_matches() -> QuerySet[Limit]:
    """Return the limits that a match is checked against; those only on waiting jobs are not."""
    return Limit.objects.exclude(running=None, cpu_s_per_day=None, delay_s=None).order_by("pk")


def with_counts(limits: QuerySet[Limit]) -> QuerySet[Limit]:
    """Return the limits, each with its counters: ``held``, ``used_s`` and ``free_at``."""
    # Uses index: event_of_limit
    events = LimitEvent.objects.filter(limit=OuterRef("pk")).order_by().values("limit")
    used = LimitSlot.objects.filter(limit=OuterRef("pk")).order_by().values("limit").annotate(sum=Sum("used"))
    jobs_left = Subquery(events.annotate(sum=Sum("jobs_left")).values("sum"), output_field=IntegerField())
    reported_s = Subquery(events.annotate(sum=Sum("cpu_s")).values("sum"), output_field=FloatField())
    return limits.annotate(
        held=Coalesce(Subquery(used.values("sum"), output_field=IntegerField()), 0) - Coalesce(jobs_left, 0),
        used_s=F("count__cpu_s") + Coalesce(reported_s, 0.0),
        free_at=F("count__free_at"),
    )


def required_places(
    *, sites: Collection[str], ces: Collection[str], owner: User, at_most: int
) -> tuple[frozenset[str], frozenset[str]]:
    """Return the sites and the computing elements that task queues of *owner* with jobs require, as far as read.

    Args:
        sites: task queues that require one of them are read.
        ces: task queues that require one of them are read too.
        owner: of the task queues.
        at_most: task queues that are read.
    """
    # Uses index: taskqueues_taskqueue_owner_id
    naming = Q(sites__overlap=list(sites)) | Q(grid_ces__overlap=list(ces))
    rows = TaskQueue.objects.filter(naming, owner=owner).with_jobs().order_by()
    required = list(rows.values_list("sites", "grid_ces")[:at_most])
    return (
        frozenset(name for names, _ in required for name in names),
        frozenset(name for _, names in required for name in names),
    )


def delivered_by_group(*, vo_ids: Collection[int], since: datetime) -> Mapping[int, float]:
    """Return {group id: processor-seconds counted in the intervals from *since* on}, of VOs."""
    # Uses index: a_group_has_one_delivery_of_a_segment_in_an_interval
    rows = UsageInterval.objects.filter(group__vo__in=vo_ids, began_at__gte=since)
    return dict(rows.order_by().values_list("group_id").annotate(sum=Sum("processor_s")))


def waiting_in(limit: Limit) -> int:
    """Return the number of waiting jobs in the scope of a limit, wherever they can run."""
    return int(WaitingJobCount.objects.filter(**_whose(limit)).aggregate(sum=Sum("jobs"))["sum"] or 0)


def waiting_only_in(limit: Limit) -> int:
    """Return the number of waiting jobs in the scope of a limit that can run only at its site or its CE."""
    ces = {"grid_ces": [limit.ce.name]} if limit.ce else {}
    sites = {"sites": [limit.site.name]} if limit.site and not ces else {}
    task_queues = TaskQueue.objects.filter(**_whose(limit), **ces, **sites)
    return QueuedJob.objects.filter(task_queue__in=task_queues).count()


def job_types_for(limit: Limit) -> list[str]:
    """Return the types of the waiting jobs to which a limit could apply, whatever type it names."""
    scope = {name: value for name, value in _whose(limit).items() if name != "job_type"}
    waiting = WaitingJobCount.objects.filter(**scope)
    site = limit.ce.site if limit.ce else limit.site
    # Who may limit a site need not know the jobs of VOs that it does not serve.
    if site is not None and (served := [vo.pk for vo in site.vos.all()]):
        waiting = waiting.filter(vo__in=served)
    return sorted(waiting.values_list("job_type", flat=True).distinct())


def _whose(limit: Limit) -> Mapping[str, int | str]:
    """Return the lookups of the jobs, or task queues, to which the limit applies at some place."""
    of = {"vo": limit.vo_id, "group": limit.group_id, "owner": limit.user_id, "job_type": limit.job_type or None}
    return {name: value for name, value in of.items() if value is not None}


def limit_standings() -> list[LimitStanding]:
    """Return the limits on matches with their present usage."""
    limits = with_counts(limits_on_matches()).select_related("vo", "site", "ce__site", "group", "user")
    return [_standing(limit) for limit in limits]


def room_in_words(limit: Limit, *, now: datetime) -> str:
    """Return the room of a limit, such as "97 of 100 jobs", or why there is none.

    Args:
        limit: of ``with_counts``, with the rows that it names loaded.
        now: the database's clock.
    """
    standing = _standing(limit)
    bounds = standing.bounds
    waiting = [] if limit.waiting is None else [_waiting_in_words(limit.waiting, now=waiting_in(limit))]
    if bounds.room(now=now) == 0:
        return ", ".join([full_in_words(standing, now=now), *waiting])
    return ", ".join([*_rooms(bounds, now=now), *waiting])


class RoomOfLimit(TypedDict):
    """A limit on matches in words, with its room."""

    name: str
    words: str
    is_full: bool


def room_of(standing: LimitStanding, *, now: datetime) -> RoomOfLimit:
    """Return the scope of a limit on matches and its room; *now* is by the database's clock."""
    bounds = standing.bounds
    is_full = bounds.room(now=now) == 0
    words = full_in_words(standing, now=now) if is_full else ", ".join(_rooms(bounds, now=now))
    return RoomOfLimit(name=limit_in_words(standing.limit), words=words, is_full=is_full)


def _rooms(bounds: Bounds, *, now: datetime) -> list[str]:
    rooms = []
    if bounds.running is not None:
        rooms.append(f"{bounds.running - bounds.held} of {bounds.running} jobs")
    if bounds.cpu_s_per_day is not None:
        rooms.append(f"{bounds.cpu_s_per_day - bounds.cpu_s:.0f} of {bounds.cpu_s_per_day} s of CPU time")
    if bounds.delay_s:
        rooms.append(f"{replace(bounds, running=None, cpu_s_per_day=None).room(now=now)} matches at once")
    return rooms


def _waiting_in_words(most: int, *, now: int) -> str:
    return f"{max(0, most - now)} of {most} waiting jobs"


def _standing(limit: Limit) -> LimitStanding:
    counted = vars(limit)
    bounds = Bounds(
        running=limit.running,
        held=counted["held"],
        delay_s=limit.delay_s,
        burst=limit.burst or 1,
        free_at=counted["free_at"],
        cpu_s_per_day=limit.cpu_s_per_day,
        cpu_s=counted["used_s"],
    )
    return LimitStanding(limit=limit, scope=scope_of(limit), bounds=bounds)


def scope_of(limit: Limit) -> LimitScope:
    """Return the scope of the limit."""
    return LimitScope(
        limit_id=limit.pk,
        vo_id=limit.vo_id,
        site_id=limit.site_id,
        ce_id=limit.ce_id,
        group_id=limit.group_id,
        owner_id=limit.user_id,
        job_type=limit.job_type,
        delay_s=limit.delay_s,
    )


def full_in_words(standing: LimitStanding, *, now: datetime) -> str:
    """Return the full limit and its usage, such as "at most 3 jobs of the user alice may run at a time, and 3 do"."""
    bounds, of = standing.bounds, limit_in_words(standing.limit)
    if bounds.running is not None and bounds.held >= bounds.running:
        jobs = f"{bounds.running} job{'' if bounds.running == 1 else 's'}"
        return f"at most {jobs} of {of} may run at a time, and {bounds.held} {'does' if bounds.held == 1 else 'do'}"
    if bounds.cpu_s_per_day is not None and bounds.cpu_s >= bounds.cpu_s_per_day:
        return (
            f"the jobs of {of} may use {bounds.cpu_s_per_day} s of CPU time in 24 hours, and have used "
            f"{bounds.cpu_s:.0f} s"
        )
    again_at = bounds.free_again_at(now=now)
    until = "" if again_at is None else f", the next in {(again_at - now).total_seconds():.1f} s"
    return f"jobs of {of} are matched every {bounds.delay_s:g} s{until}"


def limit_in_words(limit: Limit) -> str:
    """Return the scope of a limit, such as "the user alice at the site LCG.CERN.ch"."""
    who = [
        ("the user", limit.user),
        ("the group", limit.group),
        ("the VO", limit.vo),
        ("the type", limit.job_type),
    ]
    where = [("the CE", limit.ce), ("the site", limit.site)]
    of = " of ".join(f"{noun} {name}" for noun, name in who if name)
    at = " of ".join(f"{noun} {name}" for noun, name in where if name)
    return " at ".join(filter(None, [of or "all", at]))
