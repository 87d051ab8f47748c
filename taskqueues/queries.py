"""Named reads on what waits."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, F, FloatField, IntegerField, OuterRef, QuerySet, Subquery, Sum

from resources.models import Queue
from taskqueues.domain.deliveries import Amount
from taskqueues.domain.history import CorrectedShare, correct_shares
from taskqueues.domain.limits import Bounds, LimitScope
from taskqueues.models import Delivery, GroupUsage, Limit, LimitEvent, LimitSlot, QueuedJob, SubmitPool
from wms.accounts.models import VO, Group

#: A smaller share is none: parts of it would be too small for PostgreSQL, which refuses to round a number to 0.
LEAST_SHARE = 1e-100


def jobs_in(task_queue_ids: Collection[int]) -> Mapping[int, int]:
    """Return how many jobs wait in each of the queues; an empty one is missing."""
    rows = QueuedJob.objects.filter(task_queue__in=task_queue_ids).values_list("task_queue_id")
    return dict(rows.annotate(jobs=Count("pk")).order_by("task_queue_id"))


def pools_of_queue(queue: Queue, vo: VO) -> tuple[str, ...]:
    """Return the ids, sorted, of the VO's submit pools that *queue* belongs to (RFC7, getSubmitPoolsForQueue)."""
    return tuple(SubmitPool.objects.filter(vo=vo, queues=queue).order_by("pk").values_list("pk", flat=True))


def queues_of_pools(pool_ids: Collection[str], vo: VO) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: which of these pools of the VO it belongs to, sorted}; a queue of none is missing."""
    members = SubmitPool.objects.filter(pk__in=pool_ids, vo=vo, queues__isnull=False)
    pools: defaultdict[int, list[str]] = defaultdict(list)
    for queue_id, pool_id in members.order_by("pk").values_list("queues", "pk"):
        pools[queue_id].append(pool_id)
    return {queue_id: tuple(of_queue) for queue_id, of_queue in pools.items()}


def corrected_shares(*, vo_ids: Collection[int]) -> Mapping[int, CorrectedShare]:
    """Return {group id: share corrected by history} of all groups of these VOs, whether or not that is applied."""
    shares: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for group_id, vo_id, priority in Group.objects.filter(vo__in=vo_ids).values_list("pk", "vo_id", "priority"):
        shares[vo_id][group_id] = priority
    used_s = dict(GroupUsage.objects.filter(group__vo__in=vo_ids).values_list("group_id", "used_s"))
    return {
        group_id: share for of_vo in shares.values() for group_id, share in correct_shares(of_vo, used_s=used_s).items()
    }


def shares_in_effect(groups: Iterable[Group]) -> Mapping[int, float]:
    """Return {group id: share that is divided over its task queues}: corrected where its VO says so.

    Args:
        groups: with their VOs at hand.
    """
    groups = list(groups)
    vo_ids = {group.vo_id for group in groups if group.vo.history_fair_share}
    corrected = corrected_shares(vo_ids=vo_ids) if vo_ids else {}
    shares = {group.pk: corrected[group.pk].corrected if group.pk in corrected else group.priority for group in groups}
    return {group_id: share if share >= LEAST_SHARE else 0.0 for group_id, share in shares.items()}


def delivered(*, vo_id: int, since: datetime) -> Mapping[tuple[int, int], Amount]:
    """Return {(group id, CPU segment): what was counted as delivered} in the intervals from *since* on, of a VO."""
    # Uses index: a_group_has_one_delivery_of_a_segment_in_an_interval
    rows = Delivery.objects.filter(group__vo=vo_id, began_at__gte=since).values_list("group_id", "cpu_segment_s")
    sums = rows.annotate(Sum("matches"), Sum("processor_s")).order_by("group", "cpu_segment_s")
    return {(group_id, segment): Amount(matches, processor_s) for group_id, segment, matches, processor_s in sums}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """A limit on matches, and what has been taken of it."""

    #: With what it names at hand.
    limit: Limit
    scope: LimitScope
    bounds: Bounds


def limit_scopes() -> tuple[LimitScope, ...]:
    """Return what the limits on matches are on."""
    return tuple(scope_of(limit) for limit in limits_on_matches())


def limits_on_matches() -> QuerySet[Limit]:
    """Return the limits that a match is checked against; those on waiting jobs alone are not."""
    return Limit.objects.exclude(running=None, cpu_s_per_day=None, delay_s=None).order_by("pk")


def limit_standings() -> list[LimitStanding]:
    """Return the limits on matches, with what has been taken of each as of now."""
    events = LimitEvent.objects.filter(limit=OuterRef("pk")).order_by().values("limit")
    used = LimitSlot.objects.filter(limit=OuterRef("pk")).order_by().values("limit").annotate(sum=Sum("used"))
    limits = limits_on_matches().annotate(
        used=Subquery(used.values("sum"), output_field=IntegerField()),
        jobs_left=Subquery(events.annotate(sum=Sum("jobs_left")).values("sum"), output_field=IntegerField()),
        reported_s=Subquery(events.annotate(sum=Sum("cpu_s")).values("sum"), output_field=FloatField()),
        summed_s=F("count__cpu_s"),
        free_at=F("count__free_at"),
    )
    return [_standing(limit) for limit in limits.select_related("vo", "site", "ce__site", "group", "user")]


def _standing(limit: Limit) -> LimitStanding:
    counted = vars(limit)
    bounds = Bounds(
        running=limit.running,
        held=(counted["used"] or 0) - (counted["jobs_left"] or 0),
        delay_s=limit.delay_s,
        burst=limit.burst or 1,
        free_at=counted["free_at"],
        cpu_s_per_day=limit.cpu_s_per_day,
        cpu_s=(counted["summed_s"] or 0.0) + (counted["reported_s"] or 0.0),
    )
    return LimitStanding(limit=limit, scope=scope_of(limit), bounds=bounds)


def scope_of(limit: Limit) -> LimitScope:
    """Return what the limit is on."""
    return LimitScope(
        limit_id=limit.pk,
        vo_id=limit.vo_id,
        site_id=limit.site_id,
        ce_id=limit.ce_id,
        group_id=limit.group_id,
        owner_id=limit.user_id,
        job_type=limit.job_type,
    )


def limit_in_words(limit: Limit) -> str:
    """Return whose jobs, and where, a limit is on, such as "the user alice at the site LCG.CERN.ch"."""
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
