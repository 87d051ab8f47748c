"""The time until waiting jobs start: who waits for the slots of a VO's pilots, and what these run and have run."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from heapq import nlargest
from typing import Final

import numpy as np
from django.db.models import Expression, ExpressionWrapper, F, FloatField, Value
from django.db.models.functions import Extract
from numpy.typing import NDArray

from matching.domain.start_time import Competition, SeenPayloads, condensed, expected_start
from matching.domain.turnover import ObservedRuns
from matching.models import Match
from matching.queries.explain.pilots import LivingPilots
from resources.models import Queue
from taskqueues.domain.columns import Mask, Rows
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.offers import offer_of_queue, read_for
from wms.accounts.models import VO, Group
from wms.jobs.domain.time_left import TimeRange
from wms.kernel.memo import BriefMemo

#: Time in which payloads have ended that are looked at.
WINDOW: Final = timedelta(hours=6)
#: Payloads that are looked at: the newest that have ended, and those that run.
_MOST_ENDED: Final = 2000
_MOST_RUNNING: Final = 5000
#: Kinds of pilots at one queue, those of the most pilots first.
_MOST_KINDS: Final = 50
#: Jobs before one in its task queue, up to which they are counted.
_MOST_AHEAD: Final = 50_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The payloads of a VO that run at known queues, or have ended there lately; arrays are by payload."""

    queue_id: NDArray[np.int64]
    #: Owner, group and CPU segment in seconds, shape (payloads, 3).
    kind: NDArray[np.int64]
    #: Seconds ago; of the end NaN: it runs.
    submitted_s: NDArray[np.float64]
    leased_s: NDArray[np.float64]
    ended_s: NDArray[np.float64]
    #: Length of the window in which those that ended are all there.
    window_s: float

    @property
    def runs(self) -> Mask:
        """Return which of them run."""
        return np.isnan(self.ended_s)


_payloads: Final[BriefMemo[Payloads]] = BriefMemo(kept_s=10.0, most=20)


def payloads_of(vo: VO, *, now: datetime) -> Payloads:
    """Return what the pilots of a VO run and have run, as it was some seconds ago."""
    return _payloads.get(vo.pk, lambda: _read(vo, now=now))


def _read(vo: VO, *, now: datetime) -> Payloads:
    def ago(name: str) -> Expression:
        return ExpressionWrapper(Extract(Value(now) - F(name), "epoch"), output_field=FloatField())

    times = {"submitted_s": ago("job__submitted_at"), "leased_s": ago("leased_at"), "ended_s": ago("ended_at")}
    columns = ("queue_id", "job__owner_id", "job__group_id", "cpu_segment_s", *times)
    # Uses index: match_ended
    lately = Match.objects.filter(ended_at__gt=now - WINDOW).annotate(**times).order_by("-ended_at")
    newest = list(lately.values_list(*columns, "job__vo_id")[:_MOST_ENDED])
    # Uses index: match_open
    running = Match.objects.filter(ended_at=None, pilot__vo=vo, queue__isnull=False).annotate(**times)
    rows = [row for *row, vo_id in newest if vo_id == vo.pk and row[0] is not None]
    rows += running.values_list(*columns)[:_MOST_RUNNING]
    found = np.array(rows, dtype=np.float64).reshape(-1, len(columns))
    return Payloads(
        queue_id=found[:, 0].astype(np.int64),
        kind=found[:, 1:4].astype(np.int64),
        submitted_s=found[:, 4],
        leased_s=found[:, 5],
        ended_s=found[:, 6],
        window_s=max(1.0, newest[-1][6]) if len(newest) == _MOST_ENDED else WINDOW.total_seconds(),
    )


class Starts:
    """The starts of the waiting jobs of one VO; what several of its task queues need is read once."""

    def __init__(
        self, vo: VO, snapshot: Snapshot, *, queues: Iterable[Queue], living: LivingPilots, now: datetime
    ) -> None:
        """Prepare them.

        Args:
            vo: the VO.
            snapshot: its task queues.
            queues: that serve it, with their CEs and sites.
            living: its pilots.
            now: the time.
        """
        self._vo, self._snapshot, self._now = vo, snapshot, now
        self._queues = {queue.pk: queue for queue in queues}
        at_queues = (kind for queue_id in self._queues for kind in living.get(queue_id, ()))
        there = [kind for kind in at_queues if kind.running and kind.vo_id == vo.pk]
        #: The largest ones.
        self._kinds = nlargest(_MOST_KINDS, there, key=lambda kind: kind.running)

    def own_jobs_at(self, task_queue: TaskQueue, queues: Collection[Queue]) -> int:
        """Return how many jobs of the owner of a task queue run at these queues."""
        seen = self._payloads
        at = np.isin(seen.queue_id, [queue.pk for queue in queues])
        return int((seen.runs & at & (seen.kind[:, 0] == task_queue.owner_id)).sum())

    def starts_of(
        self, jobs: Sequence[QueuedJob], task_queue: TaskQueue, *, queues: Collection[Queue]
    ) -> list[TimeRange | None]:
        """Return the time until each of some jobs starts; None: it cannot be said.

        Args:
            jobs: of the task queue; they wait.
            task_queue: with group and VO.
            queues: those that take the jobs.
        """
        row, ids = self._snapshot.row_of.get(task_queue.pk), {queue.pk for queue in queues}
        if row is None or not self._kinds or not jobs:
            return [None] * len(jobs)
        takes = np.array(
            [each.queue_id in ids and each.may_take(task_queue, self._queues[each.queue_id]) for each in self._kinds]
        )
        rows = np.union1d(self._competing, [row])
        every = self._competition(rows)
        own = int(np.searchsorted(rows, row))
        every.fits[:, own] = takes
        competition, own = condensed(every, own)
        at = {kind.queue_id for kind, taken in zip(self._kinds, takes.tolist(), strict=True) if taken}
        idle = sum(kind.idle for kind, taken in zip(self._kinds, takes.tolist(), strict=True) if taken)
        seen = self._seen(task_queue, at=at, idle=idle)
        starts: list[TimeRange | None] = []
        for job in jobs:
            ahead, level = _ahead_of(job), competition.jobs[own]
            if ahead is None:
                starts.append(None)
                continue
            # The index may not know yet that it came.
            level[job.user_priority] = max(level[job.user_priority], ahead + 1)
            of, user_priority = int(level[job.user_priority]), job.user_priority
            starts.append(expected_start(competition, seen, row=own, level=user_priority, ahead=ahead, of=of))
        return starts

    def _competition(self, rows: Rows) -> Competition:
        columns, (group, entity) = self._snapshot.columns, self._numbers(rows)
        return Competition(
            jobs=self._snapshot.jobs[rows],
            priority=self._snapshot.priority[rows],
            cpu_time_s=columns.cpu_time_s[rows],
            group=group,
            entity=entity,
            slots=self._slots,
            fits=self._fits[:, rows],
            any_segment_fraction=self._vo.any_segment_fraction,
        )

    @cached_property
    def _payloads(self) -> Payloads:
        return payloads_of(self._vo, now=self._now)

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Return the slots of each kind of pilots: a pilot may run several jobs at a time."""
        leases = Counter(self._payloads.queue_id[self._payloads.runs].tolist())
        pilots: Counter[int] = Counter()
        for kind in self._kinds:
            pilots[kind.queue_id] += kind.running
            leases[kind.queue_id] += kind.idle
        return np.array(
            [
                max(kind.running, round(leases[kind.queue_id] * kind.running / pilots[kind.queue_id]))
                for kind in self._kinds
            ]
        )

    @cached_property
    def _fits(self) -> Mask:
        """Return whether pilots of each kind take the jobs of each task queue; shape (kinds, task queues)."""
        columns = self._snapshot.columns
        lookups = read_for(list(columns.submit_pools.rows_of), vo=self._vo, memo=self._snapshot.memo)
        rows = []
        for kind in self._kinds:
            offer = offer_of_queue(self._queues[kind.queue_id], vo=self._vo, now=self._now, lookups=lookups)
            takes = self._snapshot.masks.accepting(offer, but_for="pilot_type")
            if kind.group_id is not None:
                takes = takes & (columns.group_id == kind.group_id)
            rows.append(takes)
        return np.array(rows)

    @cached_property
    def _competing(self) -> Rows:
        """Return the task queues with jobs that pilots of the VO may draw."""
        drawn = self._snapshot.drawn_priority > 0
        return np.flatnonzero(drawn & (self._snapshot.columns.vo_id == self._vo.pk) & self._fits.any(axis=0))

    @cached_property
    def _sharing(self) -> frozenset[int]:
        return frozenset(Group.objects.sharing().filter(vo=self._vo).values_list("pk", flat=True))

    def _numbers(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the numbers, from 0, of the groups of task queues, and of those who share them."""
        columns = self._snapshot.columns
        groups, owners = columns.group_id[rows], columns.owner_id[rows].copy()
        owners[np.isin(groups, list(self._sharing))] = 0
        _, group = np.unique(groups, return_inverse=True)
        _, entity = np.unique(np.column_stack((groups, owners)), axis=0, return_inverse=True)
        return group.reshape(-1), entity.reshape(-1)

    def _seen(self, task_queue: TaskQueue, *, at: Collection[int], idle: int) -> SeenPayloads:
        """Return the payloads at some queues, compared with a task queue."""
        every = self._payloads
        rows = np.isin(every.queue_id, list(at))
        own = [task_queue.owner_id, task_queue.group_id, task_queue.cpu_time_s]
        kinds, number = np.unique(np.vstack([own, every.kind[rows]]), axis=0, return_inverse=True)
        number = number.reshape(-1)
        # Its own is number 0.
        first = number[0]
        order = np.append(first, np.delete(np.arange(len(kinds)), first))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        has_ended, leased_s = ~every.runs[rows], every.leased_s[rows]
        ended_s = np.where(has_ended, every.ended_s[rows], 0.0)
        return SeenPayloads(
            runs=ObservedRuns(
                from_s=np.maximum(0.0, leased_s - every.window_s),
                until_s=np.maximum(0.0, leased_s - ended_s),
                has_ended=has_ended,
            ),
            kind=place[number[1:]],
            submitted_s=every.submitted_s[rows],
            window_s=every.window_s,
            idle=idle,
            cpu_time_s=kinds[order, 2],
            waiting=np.array([self._waiting.get(tuple(each), 0) for each in kinds[order].tolist()]),
        )

    @cached_property
    def _waiting(self) -> Mapping[tuple[int, ...], int]:
        """Return {(owner, group, CPU segment): waiting jobs}."""
        columns, waits = self._snapshot.columns, self._snapshot.has_jobs
        kinds = np.column_stack((columns.owner_id, columns.group_id, columns.cpu_time_s))[waits]
        distinct, number = np.unique(kinds, axis=0, return_inverse=True)
        jobs = np.bincount(number.reshape(-1), weights=self._snapshot.jobs[waits].sum(axis=1), minlength=len(distinct))
        return {tuple(kind): int(of_kind) for kind, of_kind in zip(distinct.tolist(), jobs.tolist(), strict=True)}


def _ahead_of(job: QueuedJob) -> int | None:
    """Return the number of older jobs of its task queue and user priority; None: more than are counted."""
    # Uses index: queued_job_oldest_of_its_kind
    older = QueuedJob.objects.filter(
        task_queue=job.task_queue_id, user_priority=job.user_priority, is_held_back=False, pk__lt=job.pk
    )
    number = older[:_MOST_AHEAD].count()
    return number if number < _MOST_AHEAD else None
