"""Numbers of waiting jobs by what they wait for: those that no batch queue fits, and the others (ADR 64, 98)."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from functools import partial

import numpy as np

from matching.queries.restrictions import closings_now
from resources.domain.enums import PilotType
from resources.models import Queue
from resources.queries.places import queues_at_hand
from taskqueues.domain.columns import Mask
from taskqueues.domain.offer import ResourceOffer
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue, read_for
from taskqueues.services.restrictions import Closings
from wms.accounts.models import VO
from wms.jobs.domain.accounting import UnmatchedCount
from wms.kernel.memo import CachedLookups

#: Returns the offer of a batch queue that is compared, from the offer of its configuration.
Offered = Callable[[ResourceOffer, Queue], ResourceOffer]


class WaitReason(StrEnum):
    """The reason why the jobs of a task queue wait: the first of these that is true."""

    #: Their owner is suspended, or is no member of their group any more.
    OWNER = "owner"
    #: A pilot: a batch queue fits that is open.
    PILOT = "pilot"
    #: A limit without room.
    LIMIT = "limit"
    #: Batch queues fit that are banned, draining or before a downtime, or whose site's throttle is closed.
    CLOSED = "closed"
    #: No batch queue there is fits.
    NO_QUEUE = "no_queue"


def unmatched_counts(now: datetime) -> Collection[UnmatchedCount]:
    """Return how many jobs wait that fit no batch queue there is, for each owner, group and type.

    Bans, downtimes, throttles and limits are left out: they pass. So are platforms of nodes that no queue states, and
    jobs of owners whose jobs are not matched at all. The numbers are those of the index, which are estimates.

    Args:
        now: the time.
    """
    snapshot = index.renewed()
    columns = snapshot.columns
    wanting = _left_by_all(snapshot, snapshot.has_jobs & columns.trusted, offered=_if_open, now=now)
    type_of = {code: name for name, code in columns.job_type.code_of.items()}
    counts: Counter[tuple[int, int, str]] = Counter()
    for row in np.flatnonzero(wanting).tolist():
        kind = (int(columns.owner_id[row]), int(columns.group_id[row]), type_of[int(columns.job_type.code[row])])
        counts[kind] += int(snapshot.jobs[row].sum())
    return [
        UnmatchedCount(owner_id=owner_id, group_id=group_id, job_type=job_type, jobs=count)
        for (owner_id, group_id, job_type), count in counts.items()
    ]


def waiting_by_reason(now: datetime) -> Mapping[tuple[int, WaitReason], int]:
    """Return {(VO id, reason): number of waiting jobs}, which are estimates, as those of ``unmatched_counts``.

    Args:
        now: the time.
    """
    snapshot = index.renewed()
    columns = snapshot.columns
    wanting = snapshot.has_jobs & columns.trusted
    rows_of = {WaitReason.OWNER: snapshot.has_jobs & ~columns.trusted}
    if wanting.any():
        closings = _closings(snapshot, now=now)
        steps: Mapping[WaitReason, Offered] = {
            WaitReason.PILOT: partial(_as_it_is, closings),
            WaitReason.LIMIT: partial(_without_limits, closings),
            WaitReason.CLOSED: _if_open,
        }
        for reason, offered in steps.items():
            left = _left_by_all(snapshot, wanting, offered=offered, now=now)
            rows_of[reason], wanting = wanting & ~left, left
        rows_of[WaitReason.NO_QUEUE] = wanting
    return _numbers(snapshot, rows_of)


def runs_nowhere(snapshot: Snapshot, vo: VO, *, now: datetime) -> Mask:
    """Return the task queues of *vo* with jobs of trusted owners that no batch queue there is fits, by row.

    As ``unmatched_counts``; a result is kept until the configuration changes, because definitions never do. None of
    them if the VO has no batch queue here: its pilots come from elsewhere.
    """
    columns = snapshot.columns
    of_vo = snapshot.has_jobs & columns.trusted & (columns.vo_id == vo.pk)
    key, ids = (runs_nowhere, vo.pk), columns.task_queue_id
    compared, unfit = snapshot.memo.get(key, (ids[:0], ids[:0]))
    new = of_vo & ~np.isin(ids, compared)
    if new.any() and not CachedLookups(snapshot.memo).get(queues_at_hand, vo):
        new[:] = False
    result: Mask = of_vo & np.isin(ids, unfit)
    if new.any():
        result |= _left_by_queues(snapshot, new, vo=vo, offered=_if_open, now=now)
        snapshot.memo[key] = ids[of_vo], ids[result]
    return result


def _numbers(snapshot: Snapshot, rows_of: Mapping[WaitReason, Mask]) -> Mapping[tuple[int, WaitReason], int]:
    jobs = snapshot.jobs.sum(axis=1)
    numbers: dict[tuple[int, WaitReason], int] = {}
    for reason, rows in rows_of.items():
        vo_ids, row_of_vo = np.unique(snapshot.columns.vo_id[rows], return_inverse=True)
        sums = np.zeros(len(vo_ids), np.int64)
        np.add.at(sums, row_of_vo, jobs[rows])
        numbers |= {(vo_id, reason): number for vo_id, number in zip(vo_ids.tolist(), sums.tolist(), strict=True)}
    return numbers


def _if_open(offer: ResourceOffer, _queue: Queue) -> ResourceOffer:
    return replace(offer, accepting=True, downtime=None)


def _as_it_is(closings: Closings, offer: ResourceOffer, queue: Queue) -> ResourceOffer:
    return closings.applied(offer, site_id=queue.ce.site_id, ce_id=queue.ce_id)


def _without_limits(closings: Closings, offer: ResourceOffer, queue: Queue) -> ResourceOffer:
    return replace(_as_it_is(closings, offer, queue), full_limits=())


def _closings(snapshot: Snapshot, *, now: datetime) -> Closings:
    """Return what is closed at the sites of all VOs' queues; expressions that look at the job are taken as open."""
    lookups = CachedLookups(snapshot.memo)
    queues = [queue for vo in _vos(snapshot.columns.vo_id) for queue in lookups.get(queues_at_hand, vo)]
    sites = {queue.ce.site_id: queue.ce.site for queue in queues}
    return closings_now(sites.values(), now=now, task_queues=())


def _vos(vo_ids: "np.typing.NDArray[np.int64]") -> Collection[VO]:
    return VO.objects.filter(pk__in=np.unique(vo_ids).tolist()).order_by("pk")


def _left_by_all(snapshot: Snapshot, wanting: Mask, *, offered: Offered, now: datetime) -> Mask:
    """Return which of these task queues no batch queue of their VO fits."""
    for vo in _vos(snapshot.columns.vo_id[wanting]):
        wanting = _left_by_queues(snapshot, wanting, vo=vo, offered=offered, now=now)
    return wanting


def _left_by_queues(snapshot: Snapshot, wanting: Mask, *, vo: VO, offered: Offered, now: datetime) -> Mask:
    columns = snapshot.columns
    lookups = read_for(list(columns.submit_pools.rows_of), vo=vo, memo=snapshot.memo)
    theirs = columns.vo_id == vo.pk
    for queue in lookups.get(queues_at_hand, vo):
        if not (wanting & theirs).any():
            break
        offer = offered(offer_of_queue(queue, vo=vo, now=now, lookups=lookups), queue)
        wanting = wanting & ~(snapshot.masks.accepting(offer, but_for="pilot_type") & _takes(snapshot, queue))
    return wanting


def _takes(snapshot: Snapshot, queue: Queue) -> Mask:
    """Return the task queues whose jobs run in a kind of pilot that the CE of *queue* takes."""
    return snapshot.columns.pilot_types.accepts_one_of(queue.ce.pilot_types or list(PilotType))
