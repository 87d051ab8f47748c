"""What a cycle of the directors sends where: the demand as the match sees it, the room that is left (PIL §2.3)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random

import numpy as np
from django.conf import settings
from numpy.typing import NDArray

from pilots.backends.interface import Slot
from pilots.domain.allocation import Bound, Crowd, Places, Sent, covered, share_out
from pilots.domain.pilot_demand import Demand, Eagerness, wanted_pilots
from pilots.models import Director
from pilots.queries import JoblessPilots, crowding, found_nothing, jobless_pilots, stall_pauses
from pilots.services.batch_requests import slot_for, slot_of
from pilots.services.demand_snapshot import Picture, draw
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
    """One pilot to be sent; without a group it is a generic one."""

    queue: Queue
    vo_id: int
    group_id: int | None = None
    owner_id: int | None = None
    slot: Slot


def plan(
    queues: Sequence[Queue],
    snapshot: Snapshot,
    *,
    slots: Mapping[int, int],
    closings: ReadClosings,
    chance: Random,
    now: datetime,
) -> Sequence[PlannedPilot]:
    """Return the pilots that this cycle sends.

    The jobs of a task queue are counted once, whichever directors and queues could serve them.

    Args:
        queues: that take pilots, each with its CE and site.
        snapshot: of the task queues, read a moment ago.
        slots: pilots that each CE can take now; one that is missing takes none.
        closings: reads what throttles and limits leave.
        chance: of all draws.
        now: the time.
    """
    # Before the demand: a pilot that matches in between is then counted for a job that no longer is, not the reverse.
    jobless = jobless_pilots(now=now)
    picture = draw(queues, snapshot, now=now)
    if not picture.demands or not picture.queues:
        return []
    crowds = [(kind, Crowd(pilots=kind.pilots, serves=serves)) for kind, serves in _serving(jobless, picture)]
    jobs = np.array([demand.jobs for demand in picture.demands], dtype=np.int64)
    waiting = covered(jobs, _sent_for(crowds, picture))
    bounds = [_without(bound, _coming(bound, picture, crowds)) for bound in _bounds(picture, closings=closings)]
    places = _places(picture, slots=slots, now=now)
    sent: list[tuple[Director, Sent]] = []
    for director in _directors():
        more = _send(director, picture, places, waiting=waiting, bounds=bounds, chance=chance)
        for one in more:
            waiting[one.task_queue] += 1
        places = _filled(places, more)
        bounds = [_without(bound, _sent_under(bound, more)) for bound in bounds]
        sent += [(director, one) for one in more]
    ids = {picture.demands[one.task_queue].task_queue_id for _, one in sent}
    task_queues = TaskQueue.objects.prefetch_related("group").in_bulk(ids)
    return [
        _planned(director, one, picture.queues[one.place], task_queue)
        for director, one in sent
        # One that was emptied meanwhile wants none.
        if (task_queue := task_queues.get(picture.demands[one.task_queue].task_queue_id)) is not None
    ]


def _directors() -> Sequence[Director]:
    # docs/configuration.example.yaml: without any, one site director for all.
    return list(Director.objects.prefetch_related("sites").order_by("name")) or [Director(name="all")]


# ---- what is there already -------------------------------------------------------------------------------------------


def _serving(jobless: Sequence[JoblessPilots], picture: Picture) -> Iterator[tuple[JoblessPilots, Mask]]:
    """Yield the pilots that have no job with the task queues that they could serve."""
    place_of = {queue.pk: place for place, queue in enumerate(picture.queues)}
    columns, shares = picture.columns, picture.shares_jobs
    for kind in jobless:
        place = place_of.get(kind.queue_id)
        if place is None:
            continue  # a queue that is no longer open gives no jobs
        serves = picture.serves[place] & (columns.vo_id == kind.vo_id)
        serves &= picture.takes_generic if kind.group_id is None else picture.takes_private
        if kind.group_id is not None:
            serves &= (columns.group_id == kind.group_id) & (shares | (columns.owner_id == (kind.owner_id or 0)))
        if kind.slot:  # else it was sent by a server of before
            serves &= _within(Slot.of(kind.slot), picture.queues[place], columns)
        if kind.in_vain_at is not None:
            serves &= picture.waiting_since < kind.in_vain_at.timestamp()
        yield kind, serves


def _sent_for(crowds: Sequence[tuple[JoblessPilots, Crowd]], picture: Picture) -> Sequence[Crowd]:
    """Return the pilots with the task queues for which pilots are sent to where they are.

    One at a computing element of another grid middleware than the jobs ask for could take them, and may: but it is no
    reason to send none to one of theirs (ADR 37).
    """
    place_of = {queue.pk: place for place, queue in enumerate(picture.queues)}
    return [replace(crowd, serves=crowd.serves & picture.of_kind[place_of[kind.queue_id]]) for kind, crowd in crowds]


def _within(slot: Slot, queue: Queue, columns: Columns) -> Mask:
    """Return which task queues ask no more than the slot has, which may be smaller than the batch queue's."""
    fits: Mask = (columns.processors <= slot.processors) & (columns.gpus <= slot.gpus)
    if slot.memory_mb:
        fits &= columns.memory_mb <= slot.memory_mb
    if slot.wall_time_s is not None and slot.wall_time_s != queue.wall_time_s:
        fits &= (columns.cpu_time_s <= slot.wall_time_s) & (columns.wall_time_s <= slot.wall_time_s)
    return fits


def _coming(bound: Bound, picture: Picture, crowds: Sequence[tuple[JoblessPilots, Crowd]]) -> int:
    """Return how many pilots that have no job yet may take what the bound leaves."""
    there = {picture.queues[place].pk for place in np.flatnonzero(bound.places).tolist()}
    return sum(
        crowd.pilots
        for kind, crowd in crowds
        if kind.in_vain_at is None and kind.queue_id in there and (crowd.serves & bound.task_queues).any()
    )


# ---- where there is room ---------------------------------------------------------------------------------------------


def _places(picture: Picture, *, slots: Mapping[int, int], now: datetime) -> Places:
    ces = sorted({queue.ce_id for queue in picture.queues})
    position = {ce_id: number for number, ce_id in enumerate(ces)}
    there = crowding(picture.queues)
    paused = stall_pauses(now=now)
    room = [
        0
        if queue.pk in paused
        else min(queue.max_waiting_pilots - there[queue.pk].waiting, queue.max_pilots - there[queue.pk].living)
        for queue in picture.queues
    ]
    pressure = found_nothing(picture.queues, now=now)
    return Places(
        ce=np.array([position[queue.ce_id] for queue in picture.queues], dtype=np.intp),
        room=np.array(room, dtype=np.int64),
        slots=np.array([slots.get(ce_id, 0) for ce_id in ces], dtype=np.int64),
        serves=picture.sends,
        accepts_generic=_accepting(picture, PilotType.GENERIC),
        accepts_private=_accepting(picture, PilotType.PRIVATE),
        takes_generic=picture.takes_generic,
        takes_private=picture.takes_private,
        pressure=[pressure[queue.pk] for queue in picture.queues],
    )


def _accepting(picture: Picture, pilot_type: PilotType) -> Mask:
    accepted = [queue.ce.accepts(pilot_type) for queue in picture.queues]
    return np.array(accepted, dtype=np.bool_)


def _filled(places: Places, sent: Sequence[Sent]) -> Places:
    room, slots = places.room.copy(), places.slots.copy()
    for one in sent:
        room[one.place] -= 1
        slots[places.ce[one.place]] -= 1
    return replace(places, room=room, slots=slots)


def _bounds(picture: Picture, *, closings: ReadClosings) -> Iterator[Bound]:
    """Yield what throttles and limits leave; "A queue whose throttle or limit has room r is offered at most r"."""
    sites = {queue.ce.site_id: queue.ce.site for queue in picture.queues}
    site_ids: NDArray[np.int64] = np.array([queue.ce.site_id for queue in picture.queues])
    now = database_now()
    # NB: read only where some site's throttle asks about jobs.
    task_queues = TaskQueue.objects.filter(priority__gt=0).prefetch_related("owner", "group", "vo")
    closed = closings(sites.values(), now=now, task_queues=task_queues)
    everything = np.ones(len(picture.demands), dtype=np.bool_)
    for site_id in closed.sites:
        there = site_ids == site_id
        throttle = closed.throttle_at(site_id)
        if throttle is not None and throttle.room_left is not None:
            yield Bound(places=there, task_queues=everything, room=throttle.room_left)
        if refused := closed.refused_at(site_id):
            yield Bound(places=there, task_queues=np.isin(picture.columns.task_queue_id, refused), room=0)
    for standing in closed.limits:
        # A delay is none: by the time the pilots have come, it is over again and again.
        room = replace(standing.bounds, delay_s=None).room(now=now)
        if room is not None:
            scope = standing.scope
            held = [scope.holds_at(site_id=queue.ce.site_id, ce_id=queue.ce_id) for queue in picture.queues]
            yield Bound(places=np.array(held, dtype=np.bool_), task_queues=within(picture.columns, scope), room=room)


def _without(bound: Bound, pilots: int) -> Bound:
    return replace(bound, room=bound.room - pilots)


def _sent_under(bound: Bound, sent: Sequence[Sent]) -> int:
    return sum(bool(bound.places[one.place] and bound.task_queues[one.task_queue]) for one in sent)


# ---- what is sent ----------------------------------------------------------------------------------------------------


def _send(
    director: Director,
    picture: Picture,
    places: Places,
    *,
    waiting: NDArray[np.int64],
    bounds: Sequence[Bound],
    chance: Random,
) -> Sequence[Sent]:
    """Return what one director sends, after what others have sent in this cycle."""
    own = _own_places(director, picture)
    demands = _demands_of(director, picture, own=own)
    wanted_of = wanted_pilots(
        demands,
        waiting={demand.task_queue_id: int(waiting[number]) for number, demand in enumerate(picture.demands)},
        eagerness=Eagerness(pilots_per_cycle=director.pilots_per_cycle, max_cpu_s=settings.WMS_CPU_SEGMENTS_S[-1]),
        chance=chance.random,
    )
    return share_out(
        np.array([wanted_of.get(demand.task_queue_id, 0) for demand in picture.demands], dtype=np.int64),
        replace(places, room=np.where(own, places.room, 0)),
        private_fraction=director.private_fraction,
        chance=chance.random,
        bounds=bounds,
        waiting_since=picture.waiting_since,
    )


def _own_places(director: Director, picture: Picture) -> Mask:
    chosen = {site.pk for site in director.sites.all()} if director.pk else set()
    return np.array([not chosen or queue.ce.site_id in chosen for queue in picture.queues], dtype=np.bool_)


def _demands_of(director: Director, picture: Picture, *, own: Mask) -> Sequence[Demand]:
    """Return what the director could serve, with its own requirement where it has one (PIL §2.3 (i))."""
    served: Mask = np.logical_or.reduce(picture.sends, axis=0, where=own[:, None])
    if director.job_types:
        served &= picture.columns.job_type.is_one_of(director.job_types)
    return [picture.demands[number] for number in np.flatnonzero(served).tolist()]


def _planned(director: Director, one: Sent, queue: Queue, task_queue: TaskQueue) -> PlannedPilot:
    slot = slot_for(task_queue, queue) if director.kind == "taskqueue" else slot_of(queue)
    if one.pilot_type is PilotType.GENERIC:
        return PlannedPilot(queue=queue, vo_id=task_queue.vo_id, slot=slot)
    owner_id = None if task_queue.group.shares_jobs else task_queue.owner_id
    return PlannedPilot(queue=queue, vo_id=task_queue.vo_id, group_id=task_queue.group_id, owner_id=owner_id, slot=slot)
