"""The time until waiting jobs start: who waits for the slots of a VO's pilots, and what these run and have run."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from heapq import nlargest
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matching.domain.start_time import Competition, SeenPayloads, expected_start
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


class SeenPayload(NamedTuple):
    """A payload that runs, or has ended lately."""

    queue_id: int
    owner_id: int
    group_id: int
    cpu_segment_s: int
    submitted_at: datetime
    leased_at: datetime
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """The payloads of a VO at known queues, and the time since which those that ended are all there."""

    rows: tuple[SeenPayload, ...]
    since: datetime


_payloads: Final[BriefMemo[Payloads]] = BriefMemo(kept_s=10.0, most=20)


def payloads_of(vo: VO, *, now: datetime) -> Payloads:
    """Return what the pilots of a VO run and have run, as it was some seconds ago."""
    return _payloads.get(vo.pk, lambda: _read(vo, now=now))


def _read(vo: VO, *, now: datetime) -> Payloads:
    columns = ("queue_id", "job__owner_id", "job__group_id", "cpu_segment_s", "job__submitted_at")
    # Uses index: match_ended
    ended = Match.objects.filter(ended_at__gt=now - WINDOW).order_by("-ended_at")
    newest = list(ended.values_list(*columns, "leased_at", "ended_at", "job__vo_id")[:_MOST_ENDED])
    since = newest[-1][6] if len(newest) == _MOST_ENDED else now - WINDOW
    # Uses index: match_open
    running = Match.objects.filter(ended_at=None, pilot__vo=vo, queue__isnull=False)
    rows = chain(
        (SeenPayload(*row) for *row, vo_id in newest if vo_id == vo.pk and row[0] is not None),
        map(SeenPayload._make, running.values_list(*columns, "leased_at", "ended_at")[:_MOST_RUNNING]),
    )
    return Payloads(rows=tuple(rows), since=since)


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
        there = [kind for kinds in living.values() for kind in kinds if kind.running and kind.queue_id in self._queues]
        #: The largest ones.
        self._kinds = nlargest(_MOST_KINDS, there, key=lambda kind: kind.running)

    def own_jobs_at(self, task_queue: TaskQueue, queues: Collection[Queue]) -> int:
        """Return how many jobs of the owner of a task queue run at these queues."""
        ids = {queue.pk for queue in queues}
        return sum(
            each.ended_at is None and each.owner_id == task_queue.owner_id and each.queue_id in ids
            for each in self._payloads.rows
        )

    def start_of(self, job: QueuedJob, task_queue: TaskQueue, *, queues: Collection[Queue]) -> TimeRange | None:
        """Return the time until a job starts; None: it cannot be said.

        Args:
            job: it waits.
            task_queue: of the job, with group and VO.
            queues: those that take the job.
        """
        row, ahead, user_priority = self._snapshot.row_of.get(task_queue.pk), _ahead_of(job), job.user_priority
        if row is None or ahead is None or not self._kinds:
            return None
        ids = {queue.pk for queue in queues}
        takes = np.array(
            [each.queue_id in ids and each.may_take(task_queue, self._queues[each.queue_id]) for each in self._kinds]
        )
        fits = self._fits.copy()
        fits[:, row] = takes
        columns = self._snapshot.columns
        jobs = self._snapshot.jobs.copy()
        jobs[row, user_priority] = max(jobs[row, user_priority], ahead + 1)
        shown = np.flatnonzero((columns.vo_id == self._vo.pk) & (self._snapshot.priority > 0) & fits.any(axis=0))
        if row not in shown:
            return None
        group, entity = self._numbers(shown)
        competition = Competition(
            jobs=jobs[shown],
            priority=self._snapshot.priority[shown],
            cpu_time_s=columns.cpu_time_s[shown],
            group=group,
            entity=entity,
            slots=self._slots,
            fits=fits[:, shown],
            any_segment_fraction=self._vo.any_segment_fraction,
        )
        at = {kind.queue_id for kind, taken in zip(self._kinds, takes.tolist(), strict=True) if taken}
        idle = sum(kind.idle for kind, taken in zip(self._kinds, takes.tolist(), strict=True) if taken)
        return expected_start(
            competition,
            self._seen(task_queue, at=at, idle=idle),
            row=int(np.searchsorted(shown, row)),
            level=user_priority,
            ahead=ahead,
            of=int(jobs[row, user_priority]),
        )

    @cached_property
    def _payloads(self) -> Payloads:
        return payloads_of(self._vo, now=self._now)

    @cached_property
    def _slots(self) -> NDArray[np.int64]:
        """Return the slots of each kind of pilots: a pilot may run several jobs at a time."""
        leases = Counter(each.queue_id for each in self._payloads.rows if each.ended_at is None)
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
        now, since_s = self._now, (self._now - self._payloads.since).total_seconds()
        rows = [each for each in self._payloads.rows if each.queue_id in at]
        numbers = {(task_queue.owner_id, task_queue.group_id, task_queue.cpu_time_s): 0}
        kind = [numbers.setdefault((each.owner_id, each.group_id, each.cpu_segment_s), len(numbers)) for each in rows]
        begun_s = np.array([(now - each.leased_at).total_seconds() for each in rows])
        ended_s = np.array([0.0 if each.ended_at is None else (now - each.ended_at).total_seconds() for each in rows])
        return SeenPayloads(
            runs=ObservedRuns(
                from_s=np.maximum(0.0, begun_s - since_s),
                until_s=np.maximum(0.0, begun_s - ended_s),
                has_ended=np.array([each.ended_at is not None for each in rows], dtype=np.bool_),
            ),
            kind=np.array(kind, dtype=np.int64),
            submitted_s=np.array([(now - each.submitted_at).total_seconds() for each in rows]),
            window_s=since_s,
            idle=idle,
            cpu_time_s=np.array([cpu_time_s for *_, cpu_time_s in numbers]),
            waiting=np.array([self._waiting(*each) for each in numbers]),
        )

    def _waiting(self, owner_id: int, group_id: int, cpu_time_s: int) -> int:
        columns = self._snapshot.columns
        rows = (columns.owner_id == owner_id) & (columns.group_id == group_id) & (columns.cpu_time_s == cpu_time_s)
        return int(self._snapshot.jobs[rows].sum())


def _ahead_of(job: QueuedJob) -> int | None:
    """Return the number of older jobs of its task queue and user priority; None: more than are counted."""
    # Uses index: queued_job_oldest_of_its_kind
    older = QueuedJob.objects.filter(
        task_queue=job.task_queue_id, user_priority=job.user_priority, is_held_back=False, pk__lt=job.pk
    )
    number = older[:_MOST_AHEAD].count()
    return number if number < _MOST_AHEAD else None
