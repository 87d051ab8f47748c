"""Plan the pilots of one cycle: the demand of the task queues, within the capacity of the batch queues (PIL §2.3)."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from pilots.backends.interface import BatchRequest
from pilots.domain.allocation import Cap, IdlePilots, OpenQueues, Placement, allocate, covered
from pilots.domain.decisions import CycleFacts, NoPilots, QueueDecision, decisions_of
from pilots.domain.pilot_demand import DirectorRate, wanted_pilots
from pilots.models import Director
from pilots.queries import JoblessPilots, empty_pilot_throttles, jobless_pilots, pilot_counts, stall_pauses
from pilots.services.batch_requests import request_for, request_for_queue
from pilots.services.demand_snapshot import DemandSnapshot, take_snapshot
from pilots.services.director_scopes import DirectorScope, DirectorScopes, directors
from resources.domain.enums import PilotType
from resources.models import Queue
from taskqueues.domain.columns import Columns, Mask
from taskqueues.domain.conditions import within
from taskqueues.models import TaskQueue
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.restrictions import ReadClosings
from wms.kernel.db import database_now


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPilot:
    """One pilot to be submitted; generic if it has no group."""

    queue: Queue
    vo_id: int
    group_id: int | None = None
    owner_id: int | None = None
    setup: str
    slot: BatchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class CyclePlan:
    """What a cycle decides."""

    pilots: Sequence[PlannedPilot]
    #: With the primary key of the batch queue; of all that take pilots.
    decisions: Sequence[tuple[Queue, QueueDecision]]


def provision(
    queues: Sequence[Queue],
    snapshot: Snapshot,
    *,
    slots: Mapping[int, int],
    closings: ReadClosings,
    chance: Random,
    now: datetime,
) -> CyclePlan:
    """Return the pilots that this cycle submits, and what it decides about each batch queue.

    Each waiting job is counted once, even if several directors and queues could serve it.

    Args:
        queues: those that take pilots, each with its CE and site.
        snapshot: the task-queue index, read a moment ago.
        slots: pilots that each CE can take now; a missing CE takes none.
        closings: reads what throttles and limits leave.
        chance: of all random draws.
        now: the time.
    """
    # Before the demand: a pilot matched in between then counts for a job that no longer waits, and not the reverse.
    jobless = jobless_pilots(now=now)
    demand_snapshot = take_snapshot(queues, snapshot, now=now)
    if not demand_snapshot.demands or not demand_snapshot.queues:
        return _without_demand(queues)
    idle_pilots = [
        (kind, IdlePilots(pilots=kind.pilots, serves=serves)) for kind, serves in _serving(jobless, demand_snapshot)
    ]
    jobs = np.array([demand.jobs for demand in demand_snapshot.demands], dtype=np.int64)
    waiting = covered(jobs, _sent_for(idle_pilots, demand_snapshot))
    lacking = np.maximum(jobs - waiting, 0)
    caps = [
        _without(cap, _coming(cap, demand_snapshot, idle_pilots)) for cap in _caps(demand_snapshot, closings=closings)
    ]
    stalled = stall_pauses(now=now)
    places = _places(demand_snapshot, slots=slots, stalled=stalled, now=now)
    scopes = DirectorScopes(demand_snapshot, now=now)
    sent, is_directed = _send_all(scopes, places, waiting=waiting, caps=caps, chance=chance)
    facts = CycleFacts(
        places=places,
        lacking=lacking,
        waiting_since=demand_snapshot.waiting_since,
        caps=caps,
        is_directed=is_directed,
        ce_answers=np.array([queue.ce_id in slots for queue in demand_snapshot.queues], dtype=np.bool_),
        is_stalled=np.array([queue.pk in stalled for queue in demand_snapshot.queues], dtype=np.bool_),
    )
    return CyclePlan(pilots=_planned_pilots(sent, demand_snapshot), decisions=_decisions(facts, sent, queues=queues))


def _without_demand(queues: Sequence[Queue]) -> CyclePlan:
    nothing = [QueueDecision(place=place, wanted=0, sent=0, why_none=NoPilots.NO_JOBS) for place in range(len(queues))]
    return CyclePlan(pilots=[], decisions=list(zip(queues, nothing, strict=True)))


def _decisions(
    facts: CycleFacts, sent: Sequence[tuple[Director, Placement]], *, queues: Sequence[Queue]
) -> Sequence[tuple[Queue, QueueDecision]]:
    numbers = Counter(placement.place for _, placement in sent)
    decisions = decisions_of(facts, sent=[numbers[place] for place in range(len(queues))])
    return [(queues[decision.place], decision) for decision in decisions]


# ---- pilots without a job --------------------------------------------------------------------------------------------


def _serving(jobless: Sequence[JoblessPilots], demand_snapshot: DemandSnapshot) -> Iterator[tuple[JoblessPilots, Mask]]:
    """Yield the pilots without a job, with the task queues that they could serve."""
    place_of = {queue.pk: place for place, queue in enumerate(demand_snapshot.queues)}
    columns, shares = demand_snapshot.columns, demand_snapshot.shares_jobs
    for kind in jobless:
        place = place_of.get(kind.queue_id)
        if place is None:
            continue  # the queue is closed, so its pilots get no jobs
        serves = demand_snapshot.serves[place] & (columns.vo_id == kind.vo_id) & columns.setup.is_(kind.setup)
        serves &= demand_snapshot.takes_generic if kind.group_id is None else demand_snapshot.takes_private
        if kind.group_id is not None:
            serves &= (columns.group_id == kind.group_id) & (shares | (columns.owner_id == (kind.owner_id or 0)))
        if kind.slot:  # empty in rows of an earlier version
            serves &= _within(BatchRequest.of(kind.slot), demand_snapshot.queues[place], columns)
        if kind.empty_match_at is not None:
            serves &= demand_snapshot.waiting_since < kind.empty_match_at.timestamp()
        yield kind, serves


def _sent_for(
    idle_pilots: Sequence[tuple[JoblessPilots, IdlePilots]], demand_snapshot: DemandSnapshot
) -> Sequence[IdlePilots]:
    """Return the pilots without a job, with the task queues for which pilots are sent to their CEs.

    A pilot at a CE of another grid middleware than the jobs require could run them, but does not replace a pilot at a
    CE of theirs (ADR 37).
    """
    place_of = {queue.pk: place for place, queue in enumerate(demand_snapshot.queues)}
    return [
        replace(idle, serves=idle.serves & demand_snapshot.of_kind[place_of[kind.queue_id]])
        for kind, idle in idle_pilots
    ]


def _within(slot: BatchRequest, queue: Queue, columns: Columns) -> Mask:
    """Return the task queues whose requirements fit into the slot, which may be smaller than the batch queue's."""
    numbers = columns.numbers
    fits: Mask = (numbers["processors"] <= slot.processors) & (numbers["gpus"] <= slot.gpus)
    if slot.memory_mb:
        fits &= numbers["memory_mb"] <= slot.memory_mb
    if slot.wall_time_s is not None and slot.wall_time_s != queue.wall_time_s:
        fits &= (columns.cpu_time_s <= slot.wall_time_s) & (numbers["wall_time_s"] <= slot.wall_time_s)
    return fits


def _coming(cap: Cap, demand_snapshot: DemandSnapshot, idle_pilots: Sequence[tuple[JoblessPilots, IdlePilots]]) -> int:
    """Return how many pilots without a job may use up what the cap leaves."""
    there = {demand_snapshot.queues[place].pk for place in np.flatnonzero(cap.places).tolist()}
    return sum(
        idle.pilots
        for kind, idle in idle_pilots
        if kind.empty_match_at is None and kind.queue_id in there and (idle.serves & cap.task_queues).any()
    )


# ---- capacity --------------------------------------------------------------------------------------------------------


def _places(
    demand_snapshot: DemandSnapshot, *, slots: Mapping[int, int], stalled: Collection[int], now: datetime
) -> OpenQueues:
    ces = sorted({queue.ce_id for queue in demand_snapshot.queues})
    position = {ce_id: number for number, ce_id in enumerate(ces)}
    there = pilot_counts(demand_snapshot.queues)
    room = [
        0
        if queue.pk in stalled
        else min(queue.max_waiting_pilots - there[queue.pk].waiting, queue.max_pilots - there[queue.pk].living)
        for queue in demand_snapshot.queues
    ]
    throttle = empty_pilot_throttles(demand_snapshot.queues, now=now)
    return OpenQueues(
        ce=np.array([position[queue.ce_id] for queue in demand_snapshot.queues], dtype=np.intp),
        room=np.array(room, dtype=np.int64),
        slots=np.array([slots.get(ce_id, 0) for ce_id in ces], dtype=np.int64),
        serves=demand_snapshot.sends,
        accepts_generic=_accepting(demand_snapshot, PilotType.GENERIC),
        accepts_private=_accepting(demand_snapshot, PilotType.PRIVATE),
        takes_generic=demand_snapshot.takes_generic,
        takes_private=demand_snapshot.takes_private,
        throttle=[throttle[queue.pk] for queue in demand_snapshot.queues],
    )


def _accepting(demand_snapshot: DemandSnapshot, pilot_type: PilotType) -> Mask:
    accepted = [queue.ce.accepts(pilot_type) for queue in demand_snapshot.queues]
    return np.array(accepted, dtype=np.bool_)


def _filled(places: OpenQueues, sent: Sequence[Placement]) -> OpenQueues:
    room, slots = places.room.copy(), places.slots.copy()
    for placement in sent:
        room[placement.place] -= 1
        slots[places.ce[placement.place]] -= 1
    return replace(places, room=room, slots=slots)


def _caps(demand_snapshot: DemandSnapshot, *, closings: ReadClosings) -> Iterator[Cap]:
    """Yield a cap for each throttle and limit: at most as many pilots are sent as it leaves matches."""
    sites = {queue.ce.site_id: queue.ce.site for queue in demand_snapshot.queues}
    site_ids: NDArray[np.int64] = np.array([queue.ce.site_id for queue in demand_snapshot.queues])
    now = database_now()
    # NB: evaluated only where the throttle of some site depends on jobs.
    task_queues = TaskQueue.objects.filter(priority__gt=0).prefetch_related("owner", "group", "vo")
    closed = closings(sites.values(), now=now, task_queues=task_queues)
    everything = np.ones(len(demand_snapshot.demands), dtype=np.bool_)
    for site_id in closed.sites:
        there = site_ids == site_id
        throttle = closed.throttle_at(site_id)
        if throttle is not None and throttle.room_left is not None:
            yield Cap(places=there, task_queues=everything, room=throttle.room_left)
        if refused := closed.refused_at(site_id):
            yield Cap(places=there, task_queues=np.isin(demand_snapshot.columns.task_queue_id, refused), room=0)
    for standing in closed.limits:
        # The delay between matches does not count: it is over again before the pilots start.
        room = replace(standing.bounds, delay_s=None).room(now=now)
        if room is not None:
            scope = standing.scope
            held = [scope.holds_at(site_id=queue.ce.site_id, ce_id=queue.ce_id) for queue in demand_snapshot.queues]
            yield Cap(
                places=np.array(held, dtype=np.bool_), task_queues=within(demand_snapshot.columns, scope), room=room
            )


def _without(cap: Cap, pilots: int) -> Cap:
    return replace(cap, room=cap.room - pilots)


def _placed_under(cap: Cap, sent: Sequence[Placement]) -> int:
    return sum(bool(cap.places[placement.place] and cap.task_queues[placement.task_queue]) for placement in sent)


# ---- pilots to be submitted ------------------------------------------------------------------------------------------


def _send_all(
    scopes: DirectorScopes,
    places: OpenQueues,
    *,
    waiting: NDArray[np.int64],
    caps: Sequence[Cap],
    chance: Random,
) -> tuple[Sequence[tuple[Director, Placement]], Mask]:
    """Return the pilots of all directors, and whether a director sends pilots to the site of each batch queue.

    Each director sees what those before it send. NB: changes *waiting*.
    """
    sent: list[tuple[Director, Placement]] = []
    is_directed = np.zeros(len(scopes.demand_snapshot.queues), dtype=np.bool_)
    for director in directors():
        scope = scopes.of(director)
        is_directed |= scope.places
        more = _send(director, scope, scopes.demand_snapshot, places, waiting=waiting, caps=caps, chance=chance)
        for placement in more:
            waiting[placement.task_queue] += 1
        places = _filled(places, more)
        caps = [_without(cap, _placed_under(cap, more)) for cap in caps]
        sent += [(director, placement) for placement in more]
    return sent, is_directed


def _planned_pilots(
    sent: Sequence[tuple[Director, Placement]], demand_snapshot: DemandSnapshot
) -> Sequence[PlannedPilot]:
    ids = {demand_snapshot.demands[placement.task_queue].task_queue_id for _, placement in sent}
    task_queues = TaskQueue.objects.prefetch_related("group").in_bulk(ids)
    return [
        _planned(director, placement, demand_snapshot.queues[placement.place], task_queue)
        for director, placement in sent
        # A task queue that was emptied meanwhile gets none.
        if (task_queue := task_queues.get(demand_snapshot.demands[placement.task_queue].task_queue_id)) is not None
    ]


def _send(
    director: Director,
    scope: DirectorScope,
    demand_snapshot: DemandSnapshot,
    places: OpenQueues,
    *,
    waiting: NDArray[np.int64],
    caps: Sequence[Cap],
    chance: Random,
) -> Sequence[Placement]:
    """Return the pilots of one director; *places*, *waiting* and *caps* include those of the directors before it."""
    wanted_of = wanted_pilots(
        scope.demands,
        waiting={demand.task_queue_id: int(waiting[number]) for number, demand in enumerate(demand_snapshot.demands)},
        rate=DirectorRate(pilots_per_cycle=director.pilots_per_cycle, max_cpu_s=settings.WMS_CPU_SEGMENTS_S[-1]),
        chance=chance.random,
    )
    return allocate(
        np.array([wanted_of.get(demand.task_queue_id, 0) for demand in demand_snapshot.demands], dtype=np.int64),
        replace(places, serves=scope.sends, room=np.where(scope.places, places.room, 0)),
        private_fraction=director.private_fraction,
        chance=chance.random,
        caps=caps,
        waiting_since=demand_snapshot.waiting_since,
    )


def _planned(director: Director, placement: Placement, queue: Queue, task_queue: TaskQueue) -> PlannedPilot:
    # The only difference between the two kinds of directors.
    slot = request_for(task_queue, queue) if director.kind == "taskqueue" else request_for_queue(queue)
    generic = PlannedPilot(queue=queue, vo_id=task_queue.vo_id, setup=task_queue.setup, slot=slot)
    if placement.pilot_type is PilotType.GENERIC:
        return generic
    owner_id = None if task_queue.group.shares_jobs else task_queue.owner_id
    return replace(generic, group_id=task_queue.group_id, owner_id=owner_id)
