"""Allocation of pilots: the task queues that idle pilots cover, and where further ones go (PIL §2.3); pure.

Task queues and batch queues are positions from 0 on, so that thousands of each are compared as arrays.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pilots.domain.empty_pilot_throttle import NONE, EmptyPilotThrottle
from pilots.domain.pilot_demand import Chance
from resources.domain.enums import PilotType
from taskqueues.domain.columns import Mask

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenQueues:
    """The batch queues that pilots can be sent to: the capacity of each, and the task queues that it could serve.

    Args:
        ce: position of the computing element of each batch queue.
        room: pilots that each batch queue can still take; below 0 where there are too many.
        slots: pilots that each computing element can still take; its batch queues share them.
        serves: shape (batch queues, task queues): whether a pilot at the batch queue could run jobs of the task queue.
        accepts_generic, accepts_private: by batch queue, whether its computing element accepts such pilots.
        takes_generic, takes_private: by task queue, whether its jobs accept such pilots.
        throttle: by batch queue, if pilots there found no job; for task queues that waited then.
    """

    ce: NDArray[np.intp]
    room: Numbers
    slots: Numbers
    serves: Mask
    accepts_generic: Mask
    accepts_private: Mask
    takes_generic: Mask
    takes_private: Mask
    throttle: Sequence[EmptyPilotThrottle] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """The pilots that a throttle or a limit still allows, for some task queues at some batch queues.

    Args:
        places: its batch queues.
        task_queues: its task queues.
        room: pilots still allowed; below 0 where more are on their way already.
    """

    places: Mask
    task_queues: Mask
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePilots:
    """Pilots without a job that are alike: their number, and the task queues whose jobs they could run."""

    pilots: int
    serves: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One pilot to be sent: the positions of its task queue and batch queue, and its type."""

    task_queue: int
    place: int
    pilot_type: PilotType


def covered(demand: Numbers, idle_pilots: Collection[IdlePilots]) -> Numbers:
    """Return how many of the idle pilots count for each task queue; each pilot counts once.

    Pilots that can serve the fewest task queues are counted first, each for the task queue that the fewest pilots can
    serve, so that the more adaptable ones are left for the rest.

    Args:
        demand: the most pilots that each task queue may have; pilots beyond it count for another one.
        idle_pilots: the pilots.
    """
    counted = np.zeros_like(demand)
    served_by = sum((idle.serves.astype(np.int64) for idle in idle_pilots), start=np.zeros_like(demand))
    rarest_first = np.argsort(served_by, kind="stable")
    for idle in sorted(idle_pilots, key=lambda idle: int(np.count_nonzero(idle.serves))):
        served = rarest_first[idle.serves[rarest_first]]
        lacking = np.maximum(demand[served] - counted[served], 0)
        counted[served] += np.diff(np.minimum(np.cumsum(lacking), idle.pilots), prepend=0)
    return counted


def allocate(
    demand: Numbers,
    places: OpenQueues,
    *,
    private_fraction: float,
    chance: Chance,
    caps: Sequence[Cap] = (),
    waiting_since: NDArray[np.float64] | None = None,
) -> list[Placement]:
    """Return where each pilot of the demand goes; a pilot without capacity for it is left out.

    If capacity is short, task queues get parts of it in proportion to their demand. Each pilot goes to the batch
    queue with the most capacity left.

    Args:
        demand: pilots by task queue.
        places: the batch queues.
        private_fraction: of the pilots that may be of either type, the part that is private.
        chance: of the order, of the types, and of the pilots that a throttle keeps back.
        caps: upper bounds, none of which is exceeded.
        waiting_since: by task queue, on the clock of ``EmptyPilotThrottle.seen_at``; None: throttles do not apply.
    """
    capacity = _Capacity(places, caps, waiting_since=waiting_since)
    sent = []
    for task_queue in _shuffled(
        [int(position) for position in np.repeat(np.arange(len(demand)), demand)], chance=chance
    ):
        place = capacity.roomiest(task_queue)
        if place is not None and chance() >= capacity.sent_fraction_at(place, task_queue):
            place = capacity.roomiest(task_queue, unthrottled=True)
        if place is None:
            continue
        capacity.take(task_queue, place)
        pilot_type = _type_at(places, task_queue, place, private_fraction=private_fraction, chance=chance)
        sent.append(Placement(task_queue=task_queue, place=place, pilot_type=pilot_type))
    return sent


class _Capacity:
    """The capacity that is left while pilots are allocated; it only shrinks."""

    def __init__(self, places: OpenQueues, caps: Sequence[Cap], *, waiting_since: NDArray[np.float64] | None) -> None:
        batch_queues, task_queues = places.serves.shape
        self._places = places
        self._room, self._free = places.room.copy(), places.slots.copy()
        #: By batch queue, the smaller of its own capacity and that of its computing element.
        self._left_at = np.minimum(self._room, self._free[places.ce])
        self._left = np.array([cap.room for cap in caps], dtype=np.int64)
        self._at = np.array([cap.places for cap in caps], dtype=np.bool_).reshape(len(caps), batch_queues)
        self._on = np.array([cap.task_queues for cap in caps], dtype=np.bool_).reshape(len(caps), task_queues)
        throttle = places.throttle or [NONE] * batch_queues
        self._sent_fraction = np.array([of_queue.sent_fraction for of_queue in throttle])
        self._seen_at = np.array([of_queue.seen_at for of_queue in throttle])
        self._since = np.full(task_queues, np.inf) if waiting_since is None else waiting_since
        #: Task queues for which no batch queue has capacity left.
        self._hopeless: set[int] = set()
        #: Copied columns by task queue: reading a column of the table takes long.
        self._serving: dict[int, Mask] = {}

    def sent_fraction_at(self, place: int, task_queue: int) -> float:
        """Return the part of the pilots for a task queue that the throttle at the batch queue lets through."""
        return float(self._sent_fraction[place]) if self._since[task_queue] < self._seen_at[place] else 1.0

    def roomiest(self, task_queue: int, *, unthrottled: bool = False) -> int | None:
        """Return the batch queue with the most capacity left for a pilot of the task queue; None: no capacity.

        *unthrottled*: only batch queues without a throttle.
        """
        if task_queue in self._hopeless:
            return None
        if task_queue not in self._serving:
            self._serving[task_queue] = self._places.serves[:, task_queue].copy()
        serves = self._serving[task_queue]
        room = np.where(serves, self._left_at, 0)
        full = self._on[:, task_queue] & (self._left <= 0)
        if full.any():
            room[self._at[full].any(axis=0)] = 0
        room[
            (self._sent_fraction < 1 if unthrottled else self._sent_fraction == 0)
            & (self._since[task_queue] < self._seen_at)
        ] = 0
        place = int(room.argmax()) if len(room) else -1
        if place < 0 or room[place] <= 0:
            if not unthrottled:
                self._hopeless.add(task_queue)
            return None
        return place

    def take(self, task_queue: int, place: int) -> None:
        """Take the capacity of one pilot."""
        ce = self._places.ce[place]
        self._room[place] -= 1
        self._free[ce] -= 1
        there = self._places.ce == ce
        self._left_at[there] = np.minimum(self._room[there], self._free[ce])
        self._left[self._on[:, task_queue] & self._at[:, place]] -= 1


def _type_at(places: OpenQueues, task_queue: int, place: int, *, private_fraction: float, chance: Chance) -> PilotType:
    if not (places.accepts_private[place] and places.takes_private[task_queue]):
        return PilotType.GENERIC
    if not (places.accepts_generic[place] and places.takes_generic[task_queue]):
        return PilotType.PRIVATE
    return PilotType.PRIVATE if chance() < private_fraction else PilotType.GENERIC


def _shuffled(items: list[int], *, chance: Chance) -> list[int]:
    for last in range(len(items) - 1, 0, -1):
        other = int(chance() * (last + 1))
        items[last], items[other] = items[other], items[last]
    return items
