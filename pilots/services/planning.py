"""What a cycle of the directors sends where: the demand as the match sees it, the room that is left (PIL §2.3)."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

import numpy as np
from django.conf import settings

from pilots.domain.demand import Bound, Crowd, Demand, Eagerness, Place, Sent, covered, share_out, wanted_pilots
from pilots.models import Director
from pilots.queries import Crowding, JoblessPilots, crowding, jobless_pilots
from resources.domain.words import PilotType
from resources.models import ComputingElement, Queue
from taskqueues.domain.conditions import fitting, fitting_privately
from taskqueues.models import TaskQueue
from taskqueues.queries import jobs_in, pools_by_queue, pools_of_queue
from taskqueues.services.closings import ReadClosings
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue
from wms.accounts.models import VO
from wms.kernel.db import database_now
from wms.kernel.memo import ReadBeforehand, Remembered

_NONE = np.empty(0, dtype=np.intp)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPilot:
    """One pilot to be sent; without a group it is a generic one."""

    queue: Queue
    vo_id: int
    group_id: int | None = None
    owner_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fit:
    """The task queues of one VO that pilots at one queue could serve: generic ones, and private ones of the owners."""

    generic: frozenset[int]
    private: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    """What all directors of a cycle look at."""

    queues: Mapping[int, Queue]
    task_queues: Mapping[int, TaskQueue]
    demands: Sequence[Demand]
    #: By queue and VO.
    fits: Mapping[tuple[int, int], _Fit]
    crowding: Mapping[int, Crowding]
    #: What throttles and limits leave, pilots that are on their way not yet taken off.
    bounds: Sequence[Bound]


def plan(
    queues: Sequence[Queue], *, slots: Mapping[int, int], closings: ReadClosings, chance: Random, now: datetime
) -> Sequence[PlannedPilot]:
    """Return the pilots that this cycle sends.

    The jobs of a task queue are counted once, whichever directors and queues could serve them.

    Args:
        queues: that take pilots, each with its CE and site.
        slots: pilots that each CE can take now.
        closings: reads what throttles and limits leave.
        chance: of all draws.
        now: the time.
    """
    # Before the demand: a pilot that matches in between is then counted for a job that no longer is, not the reverse.
    jobless = jobless_pilots(now=now)
    picture = _look(queues, closings=closings, now=now)
    if not picture.demands:
        return []
    waiting = Counter(_waiting(picture, jobless))
    bounds = [replace(bound, room=bound.room - _coming(bound, picture, jobless)) for bound in picture.bounds]
    sent: list[Sent] = []
    for director in _directors():
        more = _send(director, picture, waiting=waiting, bounds=bounds, slots=slots, sent=sent, chance=chance)
        waiting.update(one.task_queue_id for one in more)
        sent += more
    return [
        _planned(one, queue=picture.queues[one.queue_id], task_queue=picture.task_queues[one.task_queue_id])
        for one in sent
    ]


def _directors() -> Sequence[Director]:
    # API.md, Configuration file: "none: one site director for all".
    return list(Director.objects.prefetch_related("sites").order_by("name")) or [Director(name="all")]


def _look(queues: Sequence[Queue], *, closings: ReadClosings, now: datetime) -> _Picture:
    # Queues of priority 0 are never drawn, so no pilot could take their jobs.
    rows = TaskQueue.objects.with_jobs().filter(priority__gt=0).select_related("owner", "group", "vo").order_by("pk")
    task_queues = {row.pk: row for row in rows}
    jobs = jobs_in(task_queues)
    snapshot = index.renewed()
    vos = VO.objects.filter(pk__in={row.vo_id for row in task_queues.values()}).order_by("pk")
    fits = {(queue.pk, vo.pk): fit for vo in vos for queue, fit in _fits(queues, snapshot, vo=vo, now=now)}
    return _Picture(
        queues={queue.pk: queue for queue in queues},
        task_queues=task_queues,
        demands=[
            Demand(task_queue_id=row.pk, priority=row.priority, jobs=jobs[row.pk], cpu_time_s=row.cpu_time_s)
            for row in task_queues.values()
            if row.pk in jobs  # else it was emptied between the two statements
        ],
        fits=fits,
        crowding=crowding(queues),
        bounds=list(_bounds(queues, task_queues, closings=closings)),
    )


def _bounds(
    queues: Sequence[Queue], task_queues: Mapping[int, TaskQueue], *, closings: ReadClosings
) -> Iterator[Bound]:
    """Yield what throttles and limits leave; "A queue whose throttle or limit has room r is offered at most r"."""
    sites = {queue.ce.site_id: queue.ce.site for queue in queues}
    now = database_now()
    closed = closings(sites.values(), now=now, task_queues=task_queues.values())
    for site_id in closed.sites:
        there = frozenset(queue.pk for queue in queues if queue.ce.site_id == site_id)
        throttle = closed.throttle_at(site_id)
        if throttle is not None and throttle.room_left is not None:
            yield Bound(queue_ids=there, task_queue_ids=None, room=throttle.room_left)
        if refused := closed.refused_at(site_id):
            yield Bound(queue_ids=there, task_queue_ids=frozenset(refused), room=0)
    for standing in closed.limits:
        # A delay is none: by the time the pilots have come, it is over again and again.
        room = replace(standing.bounds, delay_s=None).room(now=now)
        if room is not None:
            scope = standing.scope
            there = frozenset(
                queue.pk for queue in queues if scope.holds_at(site_id=queue.ce.site_id, ce_id=queue.ce_id)
            )
            theirs = frozenset(row.pk for row in task_queues.values() if scope.is_on(row))
            yield Bound(queue_ids=there, task_queue_ids=theirs, room=room)


def _coming(bound: Bound, picture: _Picture, jobless: Sequence[JoblessPilots]) -> int:
    """Return how many pilots that have no job yet may take what the bound leaves."""
    return sum(
        kind.pilots
        for kind in jobless
        if (fit := picture.fits.get((kind.queue_id, kind.vo_id))) is not None
        and any(
            bound.holds_for(queue_id=kind.queue_id, task_queue_id=task_queue_id)
            for task_queue_id in _served_by(kind, fit, picture.task_queues)
        )
    )


def _sent_under(bound: Bound, sent: Sequence[Sent]) -> int:
    return sum(bound.holds_for(queue_id=one.queue_id, task_queue_id=one.task_queue_id) for one in sent)


def _fits(queues: Sequence[Queue], snapshot: Snapshot, *, vo: VO, now: datetime) -> Iterator[tuple[Queue, _Fit]]:
    """Yield what each queue could serve of one VO; the submit pools are asked for once for all of them (RFC7)."""
    pools = pools_by_queue(vo)
    known = ReadBeforehand({pools_of_queue: lambda queue, _vo: pools.get(queue.pk, ())}, {})
    for queue in queues:
        yield queue, _fit(queue, snapshot, vo=vo, now=now, known=known)


def _fit(queue: Queue, snapshot: Snapshot, *, vo: VO, now: datetime, known: Remembered) -> _Fit:
    """Ask the conditions of the match."""
    columns, offer = snapshot.columns, offer_of_queue(queue, vo=vo, now=now, known=known)
    private = fitting_privately(columns, offer) if _accepts(queue.ce, PilotType.PRIVATE) else _NONE
    return _Fit(
        generic=frozenset(columns.task_queue_id[fitting(columns, offer)].tolist()),
        private=frozenset(columns.task_queue_id[private].tolist()),
    )


def _accepts(ce: ComputingElement, pilot_type: PilotType) -> bool:
    return not ce.pilot_types or pilot_type in ce.pilot_types


def _waiting(picture: _Picture, jobless: Sequence[JoblessPilots]) -> Mapping[int, int]:
    """Return how many pilots without a job stand for each task queue."""
    crowds = [
        Crowd(pilots=kind.pilots, serves=_served_by(kind, fit, picture.task_queues))
        for kind in jobless
        # A queue that is no longer open gives no jobs.
        if (fit := picture.fits.get((kind.queue_id, kind.vo_id))) is not None
    ]
    return covered({demand.task_queue_id: demand.jobs for demand in picture.demands}, crowds)


def _served_by(kind: JoblessPilots, fit: _Fit, task_queues: Mapping[int, TaskQueue]) -> frozenset[int]:
    if kind.group_id is None:
        return fit.generic
    # A task queue that came between the statements is not known.
    known = (task_queues[one] for one in fit.private if one in task_queues)
    return frozenset(row.pk for row in known if _serves(kind, row))


def _serves(kind: JoblessPilots, row: TaskQueue) -> bool:
    return row.group_id == kind.group_id and (row.group.shares_jobs or row.owner_id == kind.owner_id)


def _send(
    director: Director,
    picture: _Picture,
    *,
    waiting: Mapping[int, int],
    bounds: Sequence[Bound],
    slots: Mapping[int, int],
    sent: Sequence[Sent],
    chance: Random,
) -> Sequence[Sent]:
    """Return what one director sends, after what others have sent in this cycle."""
    taken = Counter(one.queue_id for one in sent)
    taken_at_ce = Counter(picture.queues[one.queue_id].ce_id for one in sent)
    places = [_place(queue, picture, taken=taken[queue.pk]) for queue in _queues_of(director, picture)]
    wanted = wanted_pilots(
        _demands_of(director, picture, places),
        waiting=waiting,
        eagerness=Eagerness(pilots_per_cycle=director.pilots_per_cycle, max_cpu_s=settings.WMS_CPU_SEGMENTS_S[-1]),
        chance=chance.random,
    )
    return share_out(
        wanted,
        places,
        slots={ce_id: number - taken_at_ce[ce_id] for ce_id, number in slots.items()},
        private_fraction=director.private_fraction,
        chance=chance.random,
        bounds=[replace(bound, room=bound.room - _sent_under(bound, sent)) for bound in bounds],
    )


def _queues_of(director: Director, picture: _Picture) -> Sequence[Queue]:
    chosen = {site.pk for site in director.sites.all()} if director.pk else set()
    return [queue for queue in picture.queues.values() if not chosen or queue.ce.site_id in chosen]


def _demands_of(director: Director, picture: _Picture, places: Sequence[Place]) -> Sequence[Demand]:
    """Return what the director could serve, with its own requirement where it has one (PIL §2.3 (i))."""
    types = frozenset(director.job_types)
    return [
        demand
        for demand in picture.demands
        if (not types or picture.task_queues[demand.task_queue_id].job_type in types)
        and any(place.serves(demand.task_queue_id) for place in places)
    ]


def _place(queue: Queue, picture: _Picture, *, taken: int) -> Place:
    there = picture.crowding.get(queue.pk, Crowding())
    fits = [fit for (queue_id, _), fit in picture.fits.items() if queue_id == queue.pk]
    generic = frozenset(one for fit in fits for one in fit.generic)
    return Place(
        queue_id=queue.pk,
        ce_id=queue.ce_id,
        room=max(0, min(queue.max_waiting_pilots - there.waiting, queue.max_pilots - there.living) - taken),
        generic=generic if _accepts(queue.ce, PilotType.GENERIC) else frozenset(),
        private=frozenset(one for fit in fits for one in fit.private),
    )


def _planned(one: Sent, *, queue: Queue, task_queue: TaskQueue) -> PlannedPilot:
    if one.pilot_type is PilotType.GENERIC:
        return PlannedPilot(queue=queue, vo_id=task_queue.vo_id)
    owner_id = None if task_queue.group.shares_jobs else task_queue.owner_id
    return PlannedPilot(queue=queue, vo_id=task_queue.vo_id, group_id=task_queue.group_id, owner_id=owner_id)
