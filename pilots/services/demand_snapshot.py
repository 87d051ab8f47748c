"""The input of all directors in a cycle: waiting jobs by task queue, and the open batch queues that could run them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models.functions import Extract
from numpy.typing import NDArray

from pilots.domain.pilot_demand import QueueDemand
from resources.domain.enums import PilotType
from resources.models import Queue, Site
from resources.queries.places import serves
from taskqueues.domain.columns import Columns, Mask
from taskqueues.models import TaskQueue
from taskqueues.queries import FreeJobs, free_jobs, pools_by_queue, pools_of_queue
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue
from wms.accounts.models import VO, Group
from wms.kernel.memo import PreloadedLookups


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSnapshot:
    """Task queues with waiting jobs, and open batch queues.

    Args:
        columns: the task queues that can be drawn and have jobs that may be matched now, in the columns that the
            conditions of the match compare; a task queue's position here is its number in all other fields.
        demands: the same task queues, as the formula for pilots takes them.
        takes_generic, takes_private: by task queue, whether its jobs accept such pilots.
        shares_jobs: by task queue, whether the members of its group share their jobs.
        waiting_since: by task queue, in seconds since the epoch.
        queues: the batch queues.
        serves: shape (batch queues, task queues): whether a pilot at the batch queue, generic or of the owner, could
            run jobs of the task queue.
        of_kind: same shape: whether the CE of the batch queue has a grid middleware that the jobs require, or they
            require none. The match does not compare it (TQM), so a pilot at another CE could run them too.
        sends: ``serves`` and ``of_kind``: where pilots for the task queue are sent.
    """

    columns: Columns
    demands: Sequence[QueueDemand]
    takes_generic: Mask
    takes_private: Mask
    shares_jobs: Mask
    waiting_since: NDArray[np.float64]
    queues: Sequence[Queue]
    serves: Mask
    of_kind: Mask
    sends: Mask


def take_snapshot(queues: Sequence[Queue], snapshot: Snapshot, *, now: datetime) -> DemandSnapshot:
    """Compare waiting jobs with the offers of the batch queues.

    Args:
        queues: those that take pilots, each with its CE and site.
        snapshot: the task-queue index, read a moment ago.
        now: the time.
    """
    free = free_jobs(now=snapshot.now())
    jobs = free.of_task_queue
    # Task queues of priority 0 are never drawn, so no pilot could take their jobs.
    # As seconds: building ten thousand datetimes takes a third of the time of all comparisons below.
    since = dict(TaskQueue.objects.filter(priority__gt=0).values_list("pk", Extract("created_at", "epoch")))
    ids = snapshot.columns.task_queue_id.tolist()
    # Task queues that were emptied or created between the statements are left out.
    rows = np.array([row for row, pk in enumerate(ids) if pk in jobs and pk in since], dtype=np.intp)
    columns = snapshot.columns.take(rows)
    pks = columns.task_queue_id.tolist()
    sharing = list(Group.objects.sharing().values_list("pk", flat=True))
    # A view if all task queues are kept, as nearly always: selecting rows takes as long as comparing them.
    kept_rows = slice(None) if len(rows) == len(ids) else rows
    served = _accepted(queues, snapshot, vo_ids=frozenset(columns.vo_id.tolist()), now=now)[:, kept_rows]
    _leave_out_refused(served, queues, columns, free)
    of_kind = _of_kind(queues, pks)
    priorities, cpu_times_s = snapshot.priority[rows].tolist(), columns.cpu_time_s.tolist()
    return DemandSnapshot(
        columns=columns,
        demands=[
            QueueDemand(task_queue_id=pk, priority=priority, jobs=jobs[pk], cpu_time_s=cpu_time_s)
            for pk, priority, cpu_time_s in zip(pks, priorities, cpu_times_s, strict=True)
        ],
        takes_generic=columns.pilot_types.accepts(PilotType.GENERIC),
        takes_private=columns.pilot_types.accepts(PilotType.PRIVATE),
        shares_jobs=np.isin(columns.group_id, sharing),
        waiting_since=np.array([since[pk] for pk in pks], dtype=np.float64),
        queues=queues,
        serves=served,
        of_kind=of_kind,
        sends=served & of_kind,
    )


def _accepted(queues: Sequence[Queue], snapshot: Snapshot, *, vo_ids: Collection[int], now: datetime) -> Mask:
    """Return whether a pilot of any type at each batch queue could run jobs of each task queue of the index."""
    accepted = np.zeros((len(queues), len(snapshot.columns.task_queue_id)), dtype=np.bool_)
    for vo in VO.objects.filter(pk__in=vo_ids).order_by("pk"):
        preloaded = _preloaded_lookups(vo)
        for place, queue in enumerate(queues):
            offer = offer_of_queue(
                queue, vo=vo, now=now, lookups=preloaded, some_name_software=snapshot.columns.software.some_listed
            )
            # Each task queue is of one VO, so the masks of several VOs can be joined.
            accepted[place] |= snapshot.masks.accepting(offer, but_for="pilot_type")
    return accepted


def _leave_out_refused(served: Mask, queues: Sequence[Queue], columns: Columns, free: FreeJobs) -> None:
    """Leave out task queues whose jobs take no pilot of the CE's only type, or all of which are held back there."""
    takes = {kind: columns.pilot_types.accepts(kind) for kind in PilotType}
    for place, queue in enumerate(queues):
        if len(queue.ce.pilot_types) == 1:
            served[place] &= takes[PilotType(queue.ce.pilot_types[0])]
        if avoiding := free.none_at(queue.pk):
            served[place] &= ~np.isin(columns.task_queue_id, list(avoiding))


def _of_kind(queues: Sequence[Queue], task_queue_ids: Sequence[int]) -> Mask:
    """Return whether the CE of each batch queue has a grid middleware that each task queue requires, if it does."""
    wanted: Mapping[int, Sequence[str]] = dict(
        TaskQueue.objects.filter(priority__gt=0).exclude(grid_middlewares=[]).values_list("pk", "grid_middlewares")
    )
    if not wanted:
        return np.broadcast_to(np.True_, (len(queues), len(task_queue_ids)))
    numbers = {number: wanted[pk] for number, pk in enumerate(task_queue_ids) if pk in wanted}
    of_middleware: dict[str, Mask] = {}
    of_kind = np.empty((len(queues), len(task_queue_ids)), dtype=np.bool_)
    for place, queue in enumerate(queues):
        mask = of_middleware.get(queue.ce.grid_middleware)
        if mask is None:
            mask = of_middleware[queue.ce.grid_middleware] = np.ones(len(task_queue_ids), dtype=np.bool_)
            for number, middlewares in numbers.items():
                mask[number] = queue.ce.is_one_of(middlewares)
        of_kind[place] = mask
    return of_kind


def _preloaded_lookups(vo: VO) -> PreloadedLookups:
    """Return what would otherwise be read for each batch queue: its submit pools and whether its site serves the VO."""
    pools: Mapping[int, tuple[str, ...]] = pools_by_queue(vo)
    serving = frozenset(Site.objects.serving(vo).values_list("pk", flat=True))
    preloaded: Mapping[Callable[..., object], Callable[..., object]] = {
        pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ()),
        serves: lambda site, _vo: site.pk in serving,
    }
    return PreloadedLookups(preloaded, {})
