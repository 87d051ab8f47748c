"""User priorities as weights (PIL §2.2)."""

from collections.abc import Mapping
from types import MappingProxyType

#: Weight of a user priority: the relative probability of a job among those of its task queue. 0 and 10 are not on the
#: linear scale: they are "internally given" the weights 1e-5 and 1e5.
WEIGHT_OF_PRIORITY: Mapping[int, float] = MappingProxyType({0: 1e-5, **{p: float(p) for p in range(1, 10)}, 10: 1e5})

#: Levels of a task queue: user priorities 0 to 10 (PIL §2.2).
USER_PRIORITIES = len(WEIGHT_OF_PRIORITY)


def total_weight(jobs_of_priority: Mapping[int, int]) -> float:
    """Return the sum of the weights of a task queue's jobs.

    Args:
        jobs_of_priority: {user priority: number of jobs}.
    """
    return sum(WEIGHT_OF_PRIORITY[priority] * jobs for priority, jobs in jobs_of_priority.items())
