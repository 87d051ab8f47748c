"""The demand for pilots: how many each task queue gets in a cycle (PIL §2.3). Pure, with chance given."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Returns a uniform random number in [0, 1) at each call.
Chance = Callable[[], float]

#: DIRAC's "lowestCPUBoost": jobs shorter than two hours get no more pilots than those of two hours.
LEAST_CPU_TIME_S = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """One task queue as input of a director: jobs ≥ 1, priority > 0, CPU time in reference-core seconds."""

    task_queue_id: int
    priority: float
    jobs: int
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorRate:
    """Parameters for the number of pilots that a director sends.

    Args:
        pilots_per_cycle: shared once by priorities and once by numbers of jobs, before the boost of short jobs.
        max_cpu_s: the highest CPU segment; shorter ones get more pilots, because more of their jobs fit into one slot.
        extra_fraction, extra: pilots beyond the waiting jobs, as a part of these and as a number.
    """

    pilots_per_cycle: int
    max_cpu_s: int
    extra_fraction: float = 0.0
    extra: int = 0


def most_pilots(jobs: int, *, waiting: int, rate: DirectorRate) -> int:
    """Return how many further pilots a task queue may have: int((1 + extra_fraction) × jobs) + extra − waiting, ≥ 0."""
    return max(0, int((1 + rate.extra_fraction) * jobs) + rate.extra - waiting)


def expected_pilots(demands: Sequence[QueueDemand], *, rate: DirectorRate) -> Mapping[int, float]:
    """Return the mean λ of the number of pilots of each task queue in one cycle.

    λ = (pilots_per_cycle / Σpriority × priority + pilots_per_cycle / Σjobs × jobs) × max_cpu_s / max(cpu_time_s, 7200),
    the sums being over *demands*.

    Source: PIL §2.3 (ii), "Based both on the priority of the TaskQueues and the total number of pending tasks".
    """
    priorities = sum(demand.priority for demand in demands)
    jobs = sum(demand.jobs for demand in demands)
    return {
        demand.task_queue_id: rate.pilots_per_cycle
        * (_part(demand.priority, priorities) + _part(demand.jobs, jobs))
        * rate.max_cpu_s
        / max(demand.cpu_time_s, LEAST_CPU_TIME_S)
        for demand in demands
    }


def wanted_pilots(
    demands: Sequence[QueueDemand], *, waiting: Mapping[int, int], rate: DirectorRate, chance: Chance
) -> Mapping[int, int]:
    """Return how many pilots each task queue gets in this cycle: a Poisson draw, at most ``most_pilots``.

    Args:
        demands: all task queues that the director could serve.
        waiting: pilots sent that have no job yet, by the task queue for which ``covered`` counts them.
        rate: of the director.
        chance: of the draws.

    Source: PIL §2.3 (ii).
    """
    means = expected_pilots(demands, rate=rate)
    return {
        demand.task_queue_id: poisson_at_most(
            means[demand.task_queue_id],
            most=most_pilots(demand.jobs, waiting=waiting.get(demand.task_queue_id, 0), rate=rate),
            chance=chance,
        )
        for demand in demands
    }


def poisson_at_most(mean: float, *, most: int, chance: Chance) -> int:
    """Return a draw from the Poisson distribution, at most *most*; exact for every mean.

    It counts the arrivals of a Poisson process within a time of *mean*, so it takes about *mean* steps at most.
    """
    arrivals, time = 0, 0.0
    while arrivals < most:
        time -= math.log(1.0 - chance())
        if time > mean:
            break
        arrivals += 1
    return arrivals


def _part(value: float, total: float) -> float:
    return value / total if total > 0 else 0.0
