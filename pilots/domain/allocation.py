"""Which pilots are there already for what waits, and where more of them go (PIL §2.3): pure, with chance handed in.

Task queues and batch queues are positions here: 0 to the number of them. So thousands of each are compared as arrays.
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
    """The batch queues that pilots can be sent to: how many each can still take, and whose jobs they could take.

    Args:
        ce: position of the computing element of each.
        room: pilots that each can still take; below 0 where there are too many.
        slots: the same of each computing element, which all its batch queues share.
        serves: shape (batch queues, task queues): which of them a pilot there could serve.
        accepts_generic, accepts_private: of each, whether its computing element takes such pilots.
        takes_generic, takes_private: of each task queue, whether its jobs do.
        throttle: of each, if pilots there found nothing; for task queues that waited then.
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
    """What a throttle or a limit leaves (DESIGN §3.7): so many pilots more, for some task queues at some batch queues.

    Args:
        places: the batch queues that it is on.
        task_queues: that it is on.
        room: below 0 where more are on their way than it has room for.
    """

    places: Mask
    task_queues: Mask
    room: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IdlePilots:
    """Pilots that are alike and have no job: how many, and which task queues they could take jobs of."""

    pilots: int
    serves: Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """One pilot to be sent: the positions of its task queue and of its batch queue, and its type."""

    task_queue: int
    place: int
    pilot_type: PilotType


def covered(wanted: Numbers, idle_pilots: Collection[IdlePilots]) -> Numbers:
    """Return how many of the pilots that have no job stand for each task queue, each pilot being counted once.

    Pilots that can serve the fewest task queues are counted first, each for the task queue that the fewest others can
    serve, so that the more adaptable ones are left for the rest.

    Args:
        wanted: the most pilots that each task queue may have; what waits beyond that stands for none.
        idle_pilots: the pilots.
    """
    found = np.zeros_like(wanted)
    served_by = sum((idle.serves.astype(np.int64) for idle in idle_pilots), start=np.zeros_like(wanted))
    rarest_first = np.argsort(served_by, kind="stable")
    for idle in sorted(idle_pilots, key=lambda idle: int(np.count_nonzero(idle.serves))):
        served = rarest_first[idle.serves[rarest_first]]
        lacking = np.maximum(wanted[served] - found[served], 0)
        found[served] += np.diff(np.minimum(np.cumsum(lacking), idle.pilots), prepend=0)
    return found


def allocate(
    wanted: Numbers,
    places: OpenQueues,
    *,
    private_fraction: float,
    chance: Chance,
    caps: Sequence[Cap] = (),
    waiting_since: NDArray[np.float64] | None = None,
) -> list[Placement]:
    """Return where each wanted pilot goes; one for whom there is no room is not sent.

    When there is too little room, task queues get parts of it in proportion to what they want. Each pilot goes where
    the most room is left.

    Args:
        wanted: pilots by task queue.
        places: the batch queues.
        private_fraction: of the pilots that may be of either type.
        chance: of the order, of the types, and of what throttle keeps back.
        caps: none of which is passed.
        waiting_since: of each task queue, in the seconds of ``Pressure.seen_at``; None: throttle is no matter.
    """
    sharing = _Sharing(places, caps, waiting_since=waiting_since)
    sent = []
    for task_queue in _shuffled([int(each) for each in np.repeat(np.arange(len(wanted)), wanted)], chance=chance):
        place = sharing.roomiest(task_queue)
        if place is not None and chance() >= sharing.kept_at(place, task_queue):
            place = sharing.roomiest(task_queue, in_peace=True)
        if place is None:
            continue
        sharing.take(task_queue, place)
        pilot_type = _type_at(places, task_queue, place, private_fraction=private_fraction, chance=chance)
        sent.append(Placement(task_queue=task_queue, place=place, pilot_type=pilot_type))
    return sent


class _Sharing:
    """What is left while pilots are given out; it only becomes less."""

    def __init__(self, places: OpenQueues, caps: Sequence[Cap], *, waiting_since: NDArray[np.float64] | None) -> None:
        batch_queues, task_queues = places.serves.shape
        self._places = places
        self._room, self._free = places.room.copy(), places.slots.copy()
        #: What both leave, by place.
        self._left_at = np.minimum(self._room, self._free[places.ce])
        self._left = np.array([cap.room for cap in caps], dtype=np.int64)
        self._at = np.array([cap.places for cap in caps], dtype=np.bool_).reshape(len(caps), batch_queues)
        self._on = np.array([cap.task_queues for cap in caps], dtype=np.bool_).reshape(len(caps), task_queues)
        throttle = places.throttle or [NONE] * batch_queues
        self._kept = np.array([one.kept for one in throttle])
        self._seen_at = np.array([one.seen_at for one in throttle])
        self._since = np.full(task_queues, np.inf) if waiting_since is None else waiting_since
        self._hopeless: set[int] = set()
        #: By task queue that was asked about: the table has them in columns, which take long to read.
        self._serving: dict[int, Mask] = {}

    def kept_at(self, place: int, task_queue: int) -> float:
        """Return which part of the pilots for a task queue is sent there."""
        return float(self._kept[place]) if self._since[task_queue] < self._seen_at[place] else 1.0

    def roomiest(self, task_queue: int, *, in_peace: bool = False) -> int | None:
        """Return the place that could take most pilots more, this one among them; None: there is none.

        *in_peace*: only those without throttle.
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
        room[(self._kept < 1 if in_peace else self._kept == 0) & (self._since[task_queue] < self._seen_at)] = 0
        place = int(room.argmax()) if len(room) else -1
        if place < 0 or room[place] <= 0:
            if not in_peace:
                self._hopeless.add(task_queue)
            return None
        return place

    def take(self, task_queue: int, place: int) -> None:
        """Note that one more goes there."""
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
