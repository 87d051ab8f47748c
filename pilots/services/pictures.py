"""What all directors of a cycle look at: what waits, and which batch queues could serve it, as the match says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.db.models import Prefetch
from numpy.typing import NDArray

from pilots.domain.demand import Demand
from resources.domain.words import PilotType
from resources.models import Queue, Site
from resources.queries import serves
from taskqueues.domain.columns import Columns, Mask
from taskqueues.models import TaskQueue
from taskqueues.queries import jobs_in_all, pools_by_queue, pools_of_queue
from taskqueues.services.index.shared import index
from taskqueues.services.offers import offer_of_queue
from wms.accounts.models import VO, Group, User
from wms.kernel.memo import ReadBeforehand


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """Task queues with jobs, and open batch queues.

    Args:
        task_queues: those that may be drawn and have jobs; the position of each is its number everywhere here.
        demands: the same as the formula wants them.
        columns: the same as the conditions of the match compare them.
        shares_jobs: of each, whether its group's members share their jobs.
        waiting_since: of each, in seconds since the epoch.
        queues: the batch queues.
        generic, private: shape (batch queues, task queues): which of them a generic pilot there, or a private one of
            the owner, could serve.
    """

    task_queues: Sequence[TaskQueue]
    demands: Sequence[Demand]
    columns: Columns
    shares_jobs: Mask
    waiting_since: NDArray[np.float64]
    queues: Sequence[Queue]
    generic: Mask
    private: Mask


def draw(queues: Sequence[Queue], *, now: datetime) -> Picture:
    """Read what waits, and compare it with what the batch queues offer.

    Args:
        queues: that take pilots, each with its CE and site.
        now: the time.
    """
    rows, jobs = _task_queues(), jobs_in_all()
    snapshot = index.renewed()
    known = snapshot.row_of.holds(np.array([row.pk for row in rows], dtype=np.int64))
    # What was emptied, or came, between the statements is left out.
    waiting = [row for row, is_known in zip(rows, known, strict=True) if is_known and row.pk in jobs]
    at = snapshot.row_of.all(np.array([row.pk for row in waiting], dtype=np.int64))
    generic = np.zeros((len(queues), len(waiting)), dtype=np.bool_)
    private = np.zeros_like(generic)
    for vo in VO.objects.filter(pk__in={row.vo_id for row in waiting}).order_by("pk"):
        answers = _known_beforehand(vo)
        for place, queue in enumerate(queues):
            offer = offer_of_queue(queue, vo=vo, now=now, known=answers)
            # Each task queue is of one VO, so what they accept is put together without loss.
            generic[place] |= snapshot.masks.accepting(offer)[at]
            if not queue.ce.pilot_types or PilotType.PRIVATE in queue.ce.pilot_types:
                private[place] |= snapshot.masks.accepting(offer, privately=True)[at]
    return Picture(
        task_queues=waiting,
        demands=[
            Demand(task_queue_id=row.pk, priority=row.priority, jobs=jobs[row.pk], cpu_time_s=row.cpu_time_s)
            for row in waiting
        ],
        columns=snapshot.columns.take(at),
        shares_jobs=np.array([row.group.shares_jobs for row in waiting], dtype=np.bool_),
        waiting_since=np.array([row.created_at.timestamp() for row in waiting], dtype=np.float64),
        queues=queues,
        generic=generic,
        private=private,
    )


def _task_queues() -> Sequence[TaskQueue]:
    """Return the task queues that may be drawn, with owner, group and VO at hand.

    Queues of priority 0 are never drawn, so no pilot could take their jobs. Owners and groups are few: a join would
    make a row of each for every queue.
    """
    people = (Prefetch("owner", User.objects.all()), Prefetch("group", Group.objects.all()), Prefetch("vo"))
    return list(TaskQueue.objects.filter(priority__gt=0).prefetch_related(*people).order_by("pk"))


def _known_beforehand(vo: VO) -> ReadBeforehand:
    """Return what would else be asked for each batch queue (RFC7, for the submit pools)."""
    pools: Mapping[int, tuple[str, ...]] = pools_by_queue(vo)
    serving = frozenset(Site.objects.serving(vo).values_list("pk", flat=True))
    answers: Mapping[Callable[..., object], Callable[..., object]] = {
        pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ()),
        serves: lambda site, _vo: site.pk in serving,
    }
    return ReadBeforehand(answers, {})
