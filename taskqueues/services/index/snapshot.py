"""What a process knows of the task queues at one moment: their definitions, priorities and how many jobs wait."""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic

import numpy as np
from numpy.typing import NDArray

from taskqueues.domain.columns import Columns, QueueRow, Rows
from taskqueues.domain.conditions import fitting
from taskqueues.domain.offer import ResourceOffer
from taskqueues.domain.weights import USER_PRIORITIES
from wms.kernel.memo import Memo

#: Of the rows remembered for offers: many times what a site asks in a second, a tenth of what a process may use.
REMEMBERED_BYTES = 4 * 1024 * 1024


class Fits:
    """The rows that fit an offer, remembered for each distinct one as long as the definitions stay what they are."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._cpu_times_s = np.unique(columns.cpu_time_s)
        self._processors = np.unique(columns.processors)
        self._memories_mb = np.unique(columns.memory_mb)
        self._rows_of: OrderedDict[ResourceOffer, Rows] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def rows(self, offer: ResourceOffer) -> Rows:
        """Return the rows that fit *offer*, ascending."""
        key = self._reduced(offer)
        with self._lock:
            if (known := self._rows_of.get(key)) is not None:
                self._rows_of.move_to_end(key)
                return known
        rows = np.flatnonzero(fitting(self._columns, offer))
        with self._lock:
            if key not in self._rows_of:
                self._rows_of[key] = rows
                self._bytes += rows.nbytes
            while self._bytes > REMEMBERED_BYTES:
                self._bytes -= self._rows_of.popitem(last=False)[1].nbytes
        return rows

    def _reduced(self, offer: ResourceOffer) -> ResourceOffer:
        """Return the offer to which the same queues fit, with numbers that queues ask for: raw ones never repeat."""
        return replace(
            offer,
            cpu_time_s=_highest(self._cpu_times_s, offer.cpu_time_s),
            processors=_highest(self._processors, offer.processors),
            memory_mb=_highest(self._memories_mb, offer.memory_mb),
        )


def _highest(values: NDArray[np.int64], offered: int) -> int:
    """Return the highest of the ascending *values* that is not above what is offered; -1: there is none."""
    below = int(np.searchsorted(values, offered, side="right"))
    return int(values[below - 1]) if below else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """What changed at one level of a queue."""

    task_queue_id: int
    user_priority: int
    #: Jobs that came less those that went.
    jobs: int
    #: Whether any came.
    came: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Numbers of queues as a table says them: one entry of each array is a queue."""

    task_queue_id: NDArray[np.int64]
    priority: NDArray[np.float64]
    trusted: NDArray[np.bool_]
    #: Counted by user priority, shape (queues, 11).
    jobs: NDArray[np.int64]
    #: Whether the count is of this reading; else the one known stays.
    counted: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The database as it was seen at one moment."""

    #: When the reading was begun, by this process's monotonic clock.
    begun_at: float
    #: The same by the database's clock (DESIGN §4.5).
    database_time: datetime
    #: What was visible (pg_snapshot).
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class News:
    """What a reading found that a snapshot did not know."""

    #: Whether sites, queues, VOs or groups changed: what is remembered of them is not true any more.
    configuration_changed: bool = False
    view: View
    #: Queues that were removed.
    gone: frozenset[int]
    #: Queues that are new; their numbers are in ``standing``.
    come: Sequence[QueueRow]
    standing: Standing
    #: Of queues whose count is not in ``standing``.
    levels: Sequence[Level]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The task queues at one moment; all but ``jobs`` never changes."""

    columns: Columns
    #: Part of the group's priority, by row.
    priority: NDArray[np.float64]
    #: Waiting jobs, by row and user priority: estimates, but that of a level with a job is never 0 (DESIGN §4.2).
    jobs: NDArray[np.int64]
    fits: Fits
    view: View
    #: What is remembered of the configuration, which is as it was at that moment.
    memo: Memo = field(default_factory=dict)

    @property
    def begun_at(self) -> float:
        """When its reading was begun, by this process's monotonic clock."""
        return self.view.begun_at

    def now(self) -> datetime:
        """Return the time by the database's clock, without asking."""
        return self.view.database_time + timedelta(seconds=monotonic() - self.view.begun_at)

    def next(self, news: News) -> "Snapshot":
        """Return the snapshot that follows this one."""
        columns, priority, jobs = self._moved(news)
        rows = np.searchsorted(columns.task_queue_id, news.standing.task_queue_id)
        if len(rows):
            priority[rows] = news.standing.priority
            jobs[rows[news.standing.counted]] = news.standing.jobs[news.standing.counted]
            if not np.array_equal(columns.trusted[rows], news.standing.trusted):
                trusted = columns.trusted.copy()
                trusted[rows] = news.standing.trusted
                columns = replace(columns, trusted=trusted)
        for level in news.levels:
            row = columns.row_of(level.task_queue_id)
            if row is not None:
                before = jobs[row, level.user_priority]
                # Where a job was or came there may be one: only a claim, or a count, tells that there is none.
                jobs[row, level.user_priority] = max(before + level.jobs, int(before > 0 or level.came))
        return Snapshot(
            columns=columns,
            priority=priority,
            jobs=jobs,
            fits=self.fits if columns is self.columns else Fits(columns),
            view=news.view,
            memo={} if news.configuration_changed else self.memo,
        )

    def _moved(self, news: News) -> tuple[Columns, NDArray[np.float64], NDArray[np.int64]]:
        """Return columns, priorities and jobs with the rows that are gone taken out and those that came put in."""
        if not news.gone and not news.come:
            return self.columns, self.priority.copy(), self.jobs.copy()
        columns, origin = self.columns.changed(gone=news.gone, come=news.come)
        known = origin >= 0
        priority = np.zeros(len(columns))
        jobs = np.zeros((len(columns), USER_PRIORITIES), dtype=np.int64)
        priority[known], jobs[known] = self.priority[origin[known]], self.jobs[origin[known]]
        return columns, priority, jobs
