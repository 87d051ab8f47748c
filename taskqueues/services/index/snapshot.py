"""A snapshot of the task queues: their definitions, priorities and numbers of waiting jobs."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import Columns, Mask, QueueRow, RowOf
from taskqueues.domain.shares import USER_PRIORITIES
from taskqueues.services.index.held_back import HeldBackLevels, Levels
from taskqueues.services.index.masks import Masks
from wms.kernel.memo import Memo


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelChange:
    """Changes at one level of a task queue."""

    task_queue_id: int
    user_priority: int
    #: Jobs added less jobs removed.
    jobs: int
    #: Whether any were added.
    came: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCounts:
    """Numbers of task queues: one entry of each array is a task queue."""

    task_queue_id: NDArray[np.int64]
    priority: NDArray[np.float64]
    trusted: NDArray[np.bool_]
    #: Counted by user priority, shape (queues, 11).
    jobs: NDArray[np.int64]
    #: Whether the count is of this reading; otherwise the earlier one stays.
    counted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseView:
    """The moment of a reading of the database."""

    #: Beginning of the reading, by this process's monotonic clock.
    begun_at: float
    #: The same by the database's clock (docs/architecture.md, Time).
    database_time: datetime
    #: The visible transactions (pg_snapshot).
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDelta:
    """Changes since a snapshot."""

    #: Whether sites, queues, VOs or groups changed: memoised lookups of them are invalid.
    configuration_changed: bool = False
    view: DatabaseView
    #: Task queues that were removed.
    gone: frozenset[int]
    #: New task queues; their numbers are in ``standing``.
    come: Sequence[QueueRow]
    standing: QueueCounts
    #: Of task queues whose count is not in ``standing``.
    levels: Sequence[LevelChange]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The task queues at one moment; immutable but for ``note_empty`` and the counts of jobs."""

    columns: Columns
    #: Part of the group's priority, by row; a task queue with 0 is never drawn.
    priority: NDArray[np.float64]
    #: The same, but 0 if no job waits.
    drawn_priority: NDArray[np.float64] = field(init=False)
    #: Whether a job waits, by row.
    has_jobs: Mask = field(init=False)
    #: Waiting jobs, by row and user priority: estimates, but never 0 for a level with a job.
    jobs: NDArray[np.int64]
    masks: Masks
    row_of: RowOf
    view: DatabaseView
    #: Recorded by claims.
    held_back: HeldBackLevels = field(default_factory=HeldBackLevels)
    #: Memoised lookups of the configuration of that moment.
    memo: Memo = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_jobs", self.jobs.any(axis=1))
        object.__setattr__(self, "drawn_priority", np.where(self.has_jobs, self.priority, 0.0))

    def note_empty(self, row: int, user_priority: int) -> None:
        """Record that no job of this user priority waits in the task queue of this row."""
        self.jobs[row, user_priority] = 0
        if not self.jobs[row].any():
            self.drawn_priority[row], self.has_jobs[row] = 0.0, False

    def held_back_for(self, names: Collection[Hashable]) -> Levels:
        """Return the levels whose jobs are held back for one of *names* now."""
        return self.held_back.of(names, now=self.now(), row_of=self.row_of)

    @property
    def begun_at(self) -> float:
        """Return the beginning of its reading, by this process's monotonic clock."""
        return self.view.begun_at

    def now(self) -> datetime:
        """Return the time by the database's clock, without a query."""
        return self.view.database_time + timedelta(seconds=monotonic() - self.view.begun_at)

    def next(self, delta: IndexDelta) -> "Snapshot":
        """Return the snapshot that follows this one."""
        columns, priority, jobs = self._moved(delta)
        row_of = self.row_of if columns is self.columns else RowOf(columns)
        rows = row_of.all(delta.standing.task_queue_id)
        if len(rows):
            priority[rows] = delta.standing.priority
            jobs[rows[delta.standing.counted]] = delta.standing.jobs[delta.standing.counted]
            if not np.array_equal(columns.trusted[rows], delta.standing.trusted):
                trusted = columns.trusted.copy()
                trusted[rows] = delta.standing.trusted
                columns = replace(columns, trusted=trusted)
        for level in delta.levels:
            row = row_of.get(level.task_queue_id)
            if row is not None:
                before = jobs[row, level.user_priority]
                # A level with an earlier or added job may have one: only a claim, or a count, shows that there is none.
                jobs[row, level.user_priority] = max(before + level.jobs, int(before > 0 or level.came))
        return Snapshot(
            columns=columns,
            priority=priority,
            jobs=jobs,
            masks=self.masks if columns is self.columns else Masks(columns),
            row_of=row_of,
            view=delta.view,
            held_back=self._still_held_back(delta),
            memo={} if delta.configuration_changed else self.memo,
        )

    def _still_held_back(self, delta: IndexDelta) -> HeldBackLevels:
        """Return what is held back where no job was added; if only a count is known, some may have been."""
        return self.held_back.still(
            now=delta.view.database_time,
            came={(level.task_queue_id, level.user_priority) for level in delta.levels if level.came},
            recounted=frozenset(delta.standing.task_queue_id[delta.standing.counted].tolist()) | delta.gone,
        )

    def _moved(self, delta: IndexDelta) -> tuple[Columns, NDArray[np.float64], NDArray[np.int64]]:
        """Return columns, priorities and jobs without the removed rows and with the new ones."""
        if not delta.gone and not delta.come:
            return self.columns, self.priority.copy(), self.jobs.copy()
        columns, origin = self.columns.changed(gone=delta.gone, come=delta.come)
        remaining = origin >= 0
        priority = np.zeros(len(columns))
        jobs = np.zeros((len(columns), USER_PRIORITIES), dtype=np.int64)
        priority[remaining], jobs[remaining] = self.priority[origin[remaining]], self.jobs[origin[remaining]]
        return columns, priority, jobs
