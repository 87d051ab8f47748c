"""User priorities as weights, and the division of a group's priority over its task queues (PRI, PIL)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
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


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """The share of a group that is divided, dimensionless, ≥ 0; and whether its members share jobs."""

    group_id: int
    share: float
    shares_jobs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """The weight of one task queue: the sum of the weights of its waiting jobs, > 0."""

    task_queue_id: int
    owner_id: int
    weight: float


def split_share(share: float, loads: Sequence[QueueLoad], *, shared: bool) -> Mapping[int, float]:
    """Return the priority of each task queue of one group.

    Args:
        share: priority of the group; dimensionless, ≥ 0.
        loads: every queue of the group with a job, in any order; weights > 0.
        shared: whether the group has JOB_SHARING: then all its task queues are divided together, otherwise the share is
            first divided equally over the owners.

    Returns:
        {task_queue_id: priority}; the values add up to *share*.

    Source: PIL §2.2, paragraph 2 (ADR 1: the 1/N that PRI puts before J is not applied).
    """
    weights_of: defaultdict[int | None, list[float]] = defaultdict(list)
    for load in loads:
        weights_of[None if shared else load.owner_id].append(load.weight)
    total = {entity: fsum(weights) for entity, weights in weights_of.items()}
    return {
        load.task_queue_id: share / len(total) * load.weight / total[None if shared else load.owner_id]
        for load in loads
    }
