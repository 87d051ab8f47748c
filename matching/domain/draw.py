"""The draw among the user priorities of one task queue (TQM, PIL)."""

from collections.abc import Mapping
from itertools import accumulate

from taskqueues.domain.weights import WEIGHT_OF_PRIORITY


def draw_user_priority(jobs_of_priority: Mapping[int, int], *, chance: float) -> int:
    """Return a user priority, drawn in proportion to (jobs × weight).

    Args:
        jobs_of_priority: {user priority: number of waiting jobs, ≥ 1}; at least one.
        chance: uniform in [0, 1).

    Source: TQM, "Resource matching", with PIL's linear scale (ADR 2: TQM's RAND()/priority is not proportional).
    """
    priorities = sorted(jobs_of_priority)
    bounds = list(accumulate(WEIGHT_OF_PRIORITY[priority] * jobs_of_priority[priority] for priority in priorities))
    point = chance * bounds[-1]
    # The sum can round so that the point lies on the last bound; the last level is meant then.
    return next((p for p, bound in zip(priorities, bounds, strict=True) if point < bound), priorities[-1])
