"""The draw of a match: a task queue, then a user priority in it (TQM, PIL; ADR 2)."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import Mask, Rows
from taskqueues.domain.shares import USER_PRIORITIES, WEIGHT_OF_PRIORITY

_WEIGHTS = np.array([WEIGHT_OF_PRIORITY[priority] for priority in range(USER_PRIORITIES)])


def draw_user_priority(jobs: NDArray[np.int64], *, chance: float) -> int:
    """Return a user priority, drawn in proportion to (jobs × weight).

    Args:
        jobs: waiting jobs by user priority; at least one is not 0.
        chance: uniform in [0, 1).

    Source: TQM, "Resource matching", with PIL's linear scale (ADR 2: TQM's RAND()/priority is not proportional).
    """
    return _position((jobs * _WEIGHTS).cumsum(), chance)


class Drawn(NamedTuple):
    """A row of the index, and the user priority of a job that waits there."""

    row: int
    user_priority: int
    #: Whether it was set aside and only such levels are left: the claim should wait for it.
    is_last_resort: bool = False


class Lottery:
    """The task queues that fit one offer, without those that were found empty or closed.

    Of the highest CPU segment left, one task queue is drawn in proportion to its priority, and in it a user priority in
    proportion to (jobs × weight). The draws are exact: a cumulative sum and a binary search (ADR 2).

    Args:
        segments: the rows that fit, one CPU segment after the other, highest first; read when needed.
        priority: by row; 0 if no job waits.
        jobs: waiting jobs, by row and user priority.
    """

    def __init__(self, segments: Iterable[Rows], *, priority: NDArray[np.float64], jobs: NDArray[np.int64]) -> None:
        self._segments = iter(segments)
        self._priority = priority
        self._jobs = jobs
        #: Rows of the current segment, and the cumulative sum of their priorities.
        self._rows = np.empty(0, dtype=np.intp)
        self._bounds = np.empty(0)
        #: {row: excluded user priorities}.
        self._left_out_levels: dict[int, set[int]] = {}
        #: Levels excluded beforehand: ascending rows, and user priorities.
        self._left_out_beforehand = (np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp))
        self._aside: list[Drawn] = []
        #: Rows excluded from every segment.
        self._left_out: Mask | None = None

    def draw(self, *, queue_chance: float, level_chance: float) -> Drawn | None:
        """Return a row and a user priority, at last those set aside; None if nothing is left.

        Args:
            queue_chance, level_chance: independent and uniform in [0, 1).
        """
        while not len(self._rows):
            rows = next(self._segments, None)
            if rows is None:
                return self._aside.pop()._replace(is_last_resort=True) if self._aside else None
            self._draw_from(rows)
        row = int(self._rows[_position(self._bounds, queue_chance)])
        return Drawn(row, draw_user_priority(self._jobs_left(row), chance=level_chance))

    def leave_out(self, drawn: Drawn) -> None:
        """Exclude a level from the draw: it is empty, or held back."""
        self._left_out_levels.setdefault(drawn.row, set()).add(drawn.user_priority)
        if not self._jobs_left(drawn.row).any():
            self.leave_out_queue(drawn.row)

    def leave_out_levels(self, rows: NDArray[np.intp], user_priorities: NDArray[np.intp]) -> None:
        """Exclude levels of every segment from the draw; once, and in the order of their rows."""
        if not len(rows):
            return
        self._left_out_beforehand = (rows, user_priorities)
        concerned, position = np.unique(rows, return_inverse=True)
        left = self._jobs[concerned]
        left[position, user_priorities] = 0
        left_out = np.zeros(len(self._priority), dtype=np.bool_)
        left_out[concerned[~left.any(axis=1)]] = True
        self.leave_out_queues(left_out)

    def set_aside(self, drawn: Drawn) -> None:
        """Exclude a level until nothing else is left: other claims hold its jobs at this moment."""
        self._aside.append(drawn)
        self.leave_out(drawn)

    def leave_out_queue(self, row: int) -> None:
        """Exclude a task queue from the draw: it is empty or closed."""
        self._draw_from(self._rows[self._rows != row])

    def leave_out_queues(self, rows: Mask) -> None:
        """Exclude task queues of every segment from the draw: they are closed together."""
        self._left_out = rows if self._left_out is None else self._left_out | rows
        self._draw_from(self._rows)

    def _draw_from(self, rows: Rows) -> None:
        if self._left_out is not None:
            rows = rows[~self._left_out[rows]]
        # NB: without those of priority 0, which must never be drawn: an empty interval could be hit at its bound.
        priorities = self._priority[rows]
        drawn = priorities > 0
        self._rows, self._bounds = rows[drawn], priorities[drawn].cumsum()

    def _jobs_left(self, row: int) -> NDArray[np.int64]:
        jobs: NDArray[np.int64] = self._jobs[row].copy()
        if row in self._left_out_levels:
            jobs[list(self._left_out_levels[row])] = 0
        rows, user_priorities = self._left_out_beforehand
        if len(rows):
            first, end = rows.searchsorted(row, side="left"), rows.searchsorted(row, side="right")
            jobs[user_priorities[first:end]] = 0
        return jobs


def _position(bounds: NDArray[np.float64], chance: float) -> int:
    """Return the interval that contains the fraction *chance* of the whole, for intervals with these upper bounds."""
    position = int(bounds.searchsorted(chance * bounds[-1], side="right"))
    if position == len(bounds):
        # Rounding has put the point on the last bound; then the last interval that is not empty is meant.
        position = int(bounds.searchsorted(bounds[-1], side="left"))
    return position
