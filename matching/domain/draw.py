"""The draw of a match: a task queue, then a user priority in it (TQM, PIL; DESIGN §3.5)."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import Rows
from taskqueues.domain.weights import USER_PRIORITIES, WEIGHT_OF_PRIORITY

_WEIGHTS = np.array([WEIGHT_OF_PRIORITY[priority] for priority in range(USER_PRIORITIES)])


def draw_user_priority(jobs: NDArray[np.int64], *, chance: float) -> int:
    """Return a user priority, drawn in proportion to (jobs × weight).

    Args:
        jobs: waiting jobs by user priority, of which one is not 0.
        chance: uniform in [0, 1).

    Source: TQM, "Resource matching", with PIL's linear scale (ADR 2: TQM's RAND()/priority is not proportional).
    """
    return _position(np.cumsum(jobs * _WEIGHTS), chance)


class Drawn(NamedTuple):
    """A row of the index, and a user priority of which a job waits there."""

    row: int
    user_priority: int
    #: Whether it was set aside, and only such levels are left: it is worth waiting for.
    is_last_resort: bool = False


@dataclass(slots=True, kw_only=True)
class Lottery:
    """The task queues that fit one offer, less those that were found empty or closed.

    Among the queues of the highest CPU segment that is left one is drawn in proportion to its priority; in it a user
    priority in proportion to (jobs × weight). The draws are exact: a cumulative sum and a binary search (ADR 2).
    """

    #: Rows of the queues that fit.
    rows: Rows
    #: By row of the index: CPU segment in seconds, priority, and waiting jobs by user priority.
    cpu_time_s: NDArray[np.int64]
    priority: NDArray[np.float64]
    jobs: NDArray[np.int64]
    #: Whether the rule of the highest segment is ignored, so that short jobs do not starve.
    any_segment: bool = False
    _left_out: set[tuple[int, int]] = field(default_factory=set)
    _aside: list[Drawn] = field(default_factory=list)
    #: The rows of the draw and the cumulative sum of their priorities; None: to be computed.
    _bounds: tuple[Rows, NDArray[np.float64]] | None = None

    def draw(self, *, queue_chance: float, level_chance: float) -> Drawn | None:
        """Return a queue and a user priority, in the end those that were set aside; None when nothing is left.

        Args:
            queue_chance, level_chance: independent and uniform in [0, 1).
        """
        if self._bounds is None:
            self._bounds = self._compute()
        rows, bounds = self._bounds
        if not len(rows):
            return self._aside.pop()._replace(is_last_resort=True) if self._aside else None
        row = int(rows[_position(bounds, queue_chance)])
        return Drawn(row, draw_user_priority(self._jobs(row), chance=level_chance))

    def leave_out(self, drawn: Drawn) -> None:
        """Take a level out of the draw: it is empty."""
        self._left_out.add((drawn.row, drawn.user_priority))
        if not self._jobs(drawn.row).any():
            self.leave_out_queue(drawn.row)

    def set_aside(self, drawn: Drawn) -> None:
        """Take a level out of the draw until nothing else is left: others hold its jobs at this moment."""
        self._aside.append(drawn)
        self.leave_out(drawn)

    def leave_out_queue(self, row: int) -> None:
        """Take a queue out of the draw: it is empty or closed."""
        self.rows = self.rows[self.rows != row]
        self._bounds = None

    def _jobs(self, row: int) -> NDArray[np.int64]:
        empty = [level for left_out, level in self._left_out if left_out == row]
        jobs: NDArray[np.int64] = self.jobs[row].copy()
        jobs[empty] = 0
        return jobs

    def _compute(self) -> tuple[Rows, NDArray[np.float64]]:
        # NB: without those of priority 0, which are never drawn: an empty part of the sum could be hit at its bound.
        rows = self.rows[(self.priority[self.rows] > 0) & self.jobs[self.rows].any(axis=1)]
        if len(rows) and not self.any_segment:
            segments = self.cpu_time_s[rows]
            rows = rows[segments == segments.max()]
        return rows, np.cumsum(self.priority[rows])


def _position(bounds: NDArray[np.float64], chance: float) -> int:
    """Return where *chance* of the whole falls among parts with these upper bounds."""
    position = int(np.searchsorted(bounds, chance * bounds[-1], side="right"))
    # The sum can round so that the point lies on the last bound; the last part that is not empty is meant then.
    return min(position, int(np.searchsorted(bounds, bounds[-1], side="left")))
