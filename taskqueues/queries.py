"""Named reads on what waits."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from django.db.models import Count, Sum

from resources.models import Queue
from taskqueues import sql
from taskqueues.domain.deliveries import Amount
from taskqueues.domain.history import CorrectedShare, correct_shares
from taskqueues.models import Delivery, GroupUsage, QueuedJob, SubmitPool
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


def pools_by_queue(vo: VO) -> Mapping[int, tuple[str, ...]]:
    """Return {queue id: as ``pools_of_queue``} of all queues, for who asks for many; a queue of none is missing."""
    return {queue_id: tuple(pools) for queue_id, pools in sql.pools_of_queues(vo_id=vo.pk).items()}


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
