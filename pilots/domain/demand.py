"""How many pilots for what waits, and where they go (PIL §2.3; DESIGN §3.7): pure, with chance handed in."""

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from resources.domain.words import PilotType

#: Uniform in [0, 1), drawn anew by each call.
Chance = Callable[[], float]

#: DIRAC's "lowestCPUBoost": a shorter job gets no more pilots than one of two hours.
LEAST_CPU_TIME_S = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One task queue as a director sees it: jobs ≥ 1, priority > 0, CPU time in reference-core seconds."""

    task_queue_id: int
    priority: float
    jobs: int
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Eagerness:
    """How many pilots a director sends.

    Args:
        pilots_per_cycle: shared out by priorities, and once more by numbers of jobs, before short jobs are boosted.
        max_cpu_s: the highest CPU segment; shorter ones get more pilots, for more of their jobs fit into one slot.
        extra_fraction, extra: pilots beyond the jobs that wait, as a part of these and as a number.
    """

    pilots_per_cycle: int
    max_cpu_s: int
    extra_fraction: float = 0.0
    extra: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One batch queue: how many pilots it can still take, and which task queues they could take jobs of.

    Args:
        queue_id: of the batch queue.
        ce_id: of its computing element, whose slots all its queues share.
        room: ≥ 0.
        generic, private: ids of the task queues that a generic pilot, or a private one of the owner, could serve.
    """

    queue_id: int
    ce_id: int
    room: int
    generic: frozenset[int]
    private: frozenset[int] = frozenset()

    def serves(self, task_queue_id: int) -> bool:
        """Return whether any pilot here could take a job of that task queue."""
        return task_queue_id in self.generic or task_queue_id in self.private


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a throttle or a limit leaves (DESIGN §3.7): so many pilots more, for some task queues at some batch queues.

    Args:
        queue_ids: of the batch queues.
        task_queue_ids: None: all.
        room: below 0 where more are on their way than it has room for.
    """

    queue_ids: frozenset[int]
    task_queue_ids: frozenset[int] | None
    room: int

    def holds_for(self, *, queue_id: int, task_queue_id: int) -> bool:
        """Return whether it is on a pilot that is sent there for that task queue."""
        return queue_id in self.queue_ids and (self.task_queue_ids is None or task_queue_id in self.task_queue_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Pilots that are alike and have no job yet: how many, and which task queues they could take jobs of."""

    pilots: int
    serves: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One pilot to be sent, for which task queue, where, and of which type."""

    task_queue_id: int
    queue_id: int
    pilot_type: PilotType


def most_pilots(jobs: int, *, waiting: int, eagerness: Eagerness) -> int:
    """Return how many pilots more a task queue may have: int((1 + extra_fraction) × jobs) + extra − waiting, ≥ 0."""
    return max(0, int((1 + eagerness.extra_fraction) * jobs) + eagerness.extra - waiting)


def expected_pilots(demands: Sequence[Demand], *, eagerness: Eagerness) -> Mapping[int, float]:
    """Return the mean λ of the number of pilots of each task queue in one cycle.

    λ = (pilots_per_cycle / Σpriority × priority + pilots_per_cycle / Σjobs × jobs) × max_cpu_s / max(cpu_time_s, 7200),
    the sums being over *demands*.

    Source: PIL §2.3 (ii), "Based both on the priority of the TaskQueues and the total number of pending tasks".
    """
    priorities = sum(demand.priority for demand in demands)
    jobs = sum(demand.jobs for demand in demands)
    return {
        demand.task_queue_id: eagerness.pilots_per_cycle
        * (_part(demand.priority, priorities) + _part(demand.jobs, jobs))
        * eagerness.max_cpu_s
        / max(demand.cpu_time_s, LEAST_CPU_TIME_S)
        for demand in demands
    }


def wanted_pilots(
    demands: Sequence[Demand], *, waiting: Mapping[int, int], eagerness: Eagerness, chance: Chance
) -> Mapping[int, int]:
    """Return how many pilots each task queue gets in this cycle: Poisson of its mean, within what it may have more.

    Args:
        demands: every task queue that the director could serve.
        waiting: pilots that have been sent and have no job yet, by the task queue that they will serve (``covered``).
        eagerness: of the director.
        chance: of the draws.

    Source: DESIGN §3.7.
    """
    means = expected_pilots(demands, eagerness=eagerness)
    return {
        demand.task_queue_id: poisson_at_most(
            means[demand.task_queue_id],
            most=most_pilots(demand.jobs, waiting=waiting.get(demand.task_queue_id, 0), eagerness=eagerness),
            chance=chance,
        )
        for demand in demands
    }


def poisson_at_most(mean: float, *, most: int, chance: Chance) -> int:
    """Return the smaller of *most* and a number drawn from the Poisson distribution; exact for every mean.

    It counts the arrivals of a Poisson process within a time of *mean*: at most about *mean* steps, however much waits.
    """
    arrivals, time = 0, 0.0
    while arrivals < most:
        time -= math.log(1.0 - chance())
        if time > mean:
            break
        arrivals += 1
    return arrivals


def covered(wanted: Mapping[int, int], crowds: Collection[Crowd]) -> Mapping[int, int]:
    """Return how many of the pilots that have no job yet stand for each task queue, each pilot being counted once.

    Pilots that can serve the fewest task queues are counted first, each for the task queue that the fewest others can
    serve, so that the more adaptable ones are left for the rest.

    Args:
        wanted: the most pilots that each task queue may have; what waits beyond that stands for none.
        crowds: the pilots.
    """
    served_by = Counter(task_queue_id for crowd in crowds for task_queue_id in crowd.serves)
    found: Counter[int] = Counter()
    for crowd in sorted(crowds, key=lambda crowd: (len(crowd.serves), sorted(crowd.serves))):
        left = crowd.pilots
        for task_queue_id in sorted(crowd.serves, key=lambda one: (served_by[one], one)):
            counted = min(left, max(0, wanted.get(task_queue_id, 0) - found[task_queue_id]))
            found[task_queue_id] += counted
            left -= counted
    return found


def share_out(
    wanted: Mapping[int, int],
    places: Sequence[Place],
    *,
    slots: Mapping[int, int],
    private_fraction: float,
    chance: Chance,
    bounds: Sequence[Bound] = (),
) -> list[Sent]:
    """Return where each wanted pilot goes; one for whom there is no room is not sent.

    When there is too little room, task queues get parts of it in proportion to what they want. Each pilot goes where
    the most room is left.

    Args:
        wanted: pilots by task queue.
        places: the batch queues.
        slots: pilots that each computing element can still take; one that is missing takes none.
        private_fraction: of the pilots that may be of either type.
        chance: of the order, and of the types.
        bounds: none of which is passed.
    """
    bounds_left = [bound.room for bound in bounds]
    room = {place.queue_id: place.room for place in places}
    free = dict(slots)
    serving = {task_queue_id: [place for place in places if place.serves(task_queue_id)] for task_queue_id in wanted}
    sent = []
    for task_queue_id in _shuffled([one for one in sorted(wanted) for _ in range(wanted[one])], chance=chance):
        on = {place.queue_id: _holding(bounds, place, task_queue_id) for place in serving[task_queue_id]}
        open_places = [
            one
            for one in serving[task_queue_id]
            if room[one.queue_id] > 0
            and free.get(one.ce_id, 0) > 0
            and all(bounds_left[bound] > 0 for bound in on[one.queue_id])
        ]
        if not open_places:
            continue
        place = max(open_places, key=lambda one: (min(room[one.queue_id], free[one.ce_id]), -one.queue_id))
        room[place.queue_id] -= 1
        free[place.ce_id] -= 1
        for bound in on[place.queue_id]:
            bounds_left[bound] -= 1
        pilot_type = _type_at(place, task_queue_id, private_fraction=private_fraction, chance=chance)
        sent.append(Sent(task_queue_id=task_queue_id, queue_id=place.queue_id, pilot_type=pilot_type))
    return sent


def _part(value: float, total: float) -> float:
    return value / total if total > 0 else 0.0


def _holding(bounds: Sequence[Bound], place: Place, task_queue_id: int) -> list[int]:
    """Return the positions of those that are on pilots sent there for that task queue."""
    return [
        position
        for position, bound in enumerate(bounds)
        if bound.holds_for(queue_id=place.queue_id, task_queue_id=task_queue_id)
    ]


def _type_at(place: Place, task_queue_id: int, *, private_fraction: float, chance: Chance) -> PilotType:
    if task_queue_id not in place.private:
        return PilotType.GENERIC
    if task_queue_id not in place.generic:
        return PilotType.PRIVATE
    return PilotType.PRIVATE if chance() < private_fraction else PilotType.GENERIC


Item = TypeVar("Item")


def _shuffled(items: Sequence[Item], *, chance: Chance) -> list[Item]:
    shuffled = list(items)
    for last in range(len(shuffled) - 1, 0, -1):
        other = int(chance() * (last + 1))
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return shuffled
