"""What all directors of a cycle look at: what waits, and which batch queues could serve it, as the match says."""

from collections.abc import Callable, Mapping, Sequence
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
from taskqueues.queries import free_jobs, pools_by_queue, pools_of_queue
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue
from wms.accounts.models import VO, Group
from wms.kernel.memo import ReadBeforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSnapshot:
    """Task queues with jobs, and open batch queues.

    Args:
        columns: the task queues that may be drawn and have jobs whose time has come, as the conditions of the match
            compare them; the position of each is its number everywhere here.
        demands: the same as the formula wants them.
        takes_generic, takes_private: of each, whether its jobs accept such pilots.
        shares_jobs: of each, whether its group's members share their jobs.
        waiting_since: of each, in seconds since the epoch.
        queues: the batch queues.
        serves: shape (batch queues, task queues): which of them a pilot there could serve, of the owner or generic.
        of_kind: of the same shape: whether the batch queue's computing element has a grid middleware that the jobs ask
            for, or they ask for none. The match does not compare it (TQM), so a pilot elsewhere could serve them too.
        sends: both: for which of them pilots are sent there.
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
    """Compare what waits with what the batch queues offer.

    Args:
        queues: that take pilots, each with its CE and site.
        snapshot: of the task queues, read a moment ago.
        now: the time.
    """
    free = free_jobs(now=snapshot.now())
    jobs = free.of_task_queue
    # Queues of priority 0 are never drawn, so no pilot could take their jobs.
    # In seconds: to make ten thousand points in time takes as long as a third of all that is compared below.
    since = dict(TaskQueue.objects.filter(priority__gt=0).values_list("pk", Extract("created_at", "epoch")))
    ids = snapshot.columns.task_queue_id.tolist()
    # What was emptied, or came, between the statements is left out.
    rows = np.array([row for row, pk in enumerate(ids) if pk in jobs and pk in since], dtype=np.intp)
    columns = snapshot.columns.take(rows)
    pks = columns.task_queue_id.tolist()
    sharing = list(Group.objects.sharing().values_list("pk", flat=True))
    takes_generic = columns.pilot_types.accepts(PilotType.GENERIC)
    takes_private = columns.pilot_types.accepts(PilotType.PRIVATE)
    # A view, where all of them are there: that is nearly always so, and to pick takes as long as to compare.
    kept = slice(None) if len(rows) == len(ids) else rows
    there = np.zeros((len(queues), len(rows)), dtype=np.bool_)
    for vo in VO.objects.filter(pk__in=set(columns.vo_id.tolist())).order_by("pk"):
        answers = _known_beforehand(vo)
        for place, queue in enumerate(queues):
            offer = offer_of_queue(
                queue, vo=vo, now=now, known=answers, some_name_software=snapshot.columns.software.some_listed
            )
            # Each task queue is of one VO, so what they accept is put together without loss.
            there[place] |= snapshot.masks.accepting(offer, but_for="pilot_type")[kept]
    for place, queue in enumerate(queues):
        if queue.ce.pilot_types == [PilotType.GENERIC]:
            there[place] &= takes_generic
        elif queue.ce.pilot_types == [PilotType.PRIVATE]:
            there[place] &= takes_private
        if avoiding := free.none_at(queue.pk):
            there[place] &= ~np.isin(columns.task_queue_id, list(avoiding))
    asking = dict(
        TaskQueue.objects.filter(priority__gt=0).exclude(grid_middlewares=[]).values_list("pk", "grid_middlewares")
    )
    of_kind = _of_kind(queues, pks, asking) if asking else np.broadcast_to(np.True_, there.shape)
    return DemandSnapshot(
        columns=columns,
        demands=[
            QueueDemand(task_queue_id=pk, priority=priority, jobs=jobs[pk], cpu_time_s=cpu_time_s)
            for pk, priority, cpu_time_s in zip(
                pks, snapshot.priority[rows].tolist(), columns.cpu_time_s.tolist(), strict=True
            )
        ],
        takes_generic=takes_generic,
        takes_private=takes_private,
        shares_jobs=np.isin(columns.group_id, sharing),
        waiting_since=np.array([since[pk] for pk in pks], dtype=np.float64),
        queues=queues,
        serves=there,
        of_kind=of_kind,
        sends=there & of_kind if asking else there,
    )


def _of_kind(queues: Sequence[Queue], task_queue_ids: Sequence[int], asking: Mapping[int, Sequence[str]]) -> Mask:
    """Return whether each batch queue is at a computing element of a grid middleware that each task queue asks for.

    Args:
        queues: each with its CE.
        task_queue_ids: in the order of the result.
        asking: the grid middlewares of those task queues that ask for some.
    """
    numbers = {number: asking[pk] for number, pk in enumerate(task_queue_ids) if pk in asking}
    of_middleware: dict[str, Mask] = {}
    found = np.empty((len(queues), len(task_queue_ids)), dtype=np.bool_)
    for place, queue in enumerate(queues):
        mask = of_middleware.get(queue.ce.grid_middleware)
        if mask is None:
            mask = of_middleware[queue.ce.grid_middleware] = np.ones(len(task_queue_ids), dtype=np.bool_)
            for number, middlewares in numbers.items():
                mask[number] = queue.ce.is_one_of(middlewares)
        found[place] = mask
    return found


def _known_beforehand(vo: VO) -> ReadBeforehand:
    """Return what would else be asked for each batch queue (RFC7, for the submit pools)."""
    pools: Mapping[int, tuple[str, ...]] = pools_by_queue(vo)
    serving = frozenset(Site.objects.serving(vo).values_list("pk", flat=True))
    answers: Mapping[Callable[..., object], Callable[..., object]] = {
        pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ()),
        serves: lambda site, _vo: site.pk in serving,
    }
    return ReadBeforehand(answers, {})
