"""How many pilots each task queue gets in a cycle (PIL §2.3; DESIGN §3.7): pure, with chance handed in."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

#: Uniform in [0, 1), drawn anew by each call.
Chance = Callable[[], float]

#: DIRAC's "lowestCPUBoost": a shorter job gets no more pilots than one of two hours.
LEAST_CPU_TIME_S = 7200


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDemand:
    """One task queue as a director sees it: jobs ≥ 1, priority > 0, CPU time in reference-core seconds."""

    task_queue_id: int
    priority: float
    jobs: int
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorRate:
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


def most_pilots(jobs: int, *, waiting: int, rate: DirectorRate) -> int:
    """Return how many pilots more a task queue may have: int((1 + extra_fraction) × jobs) + extra − waiting, ≥ 0."""
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
    """Return how many pilots each task queue gets in this cycle: Poisson of its mean, within what it may have more.

    Args:
        demands: every task queue that the director could serve.
        waiting: pilots that have been sent and have no job yet, by the task queue that they will serve (``covered``).
        rate: of the director.
        chance: of the draws.

    Source: DESIGN §3.7.
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


def _part(value: float, total: float) -> float:
    return value / total if total > 0 else 0.0
