"""Task queues for pages: those that a user may see, with their priorities term by term and what comes before them.

Ranks and sums are computed from the index of task queues in memory, so that a page reads as many rows as it shows,
whatever the number of task queues. What is said of others' task queues are sums only.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np

from matching.queries.unmatched_counts import runs_nowhere
from taskqueues.domain.columns import Mask
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.queries import LEAST_SHARE, corrected_shares, jobs_in
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from wms.accounts.models import VO, Group, User

#: Task queues on a page.
MOST_ON_PAGE: Final = 50
#: Jobs of a task queue, by the index's estimate, up to which they are counted.
COUNTED_UP_TO: Final = 1000
#: Jobs listed on the page of a task queue.
MOST_JOBS: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSum:
    """Some task queues in sum."""

    queues: int
    #: As estimated by the index.
    jobs: int
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityTerms:
    """The terms whose product is the priority of a task queue (PRI, PIL §2.2)."""

    #: Share of the group, as configured.
    share: float
    #: Factor by which the history of usage corrects it; None: its VO does not correct shares.
    correction: float | None
    #: Owners with waiting jobs among whom the share is divided equally; None: the group shares its jobs.
    owners: int | None
    #: Part of the task queue in the jobs of its owner, or of its group if this shares its jobs: 0 to 1.
    part: float
    #: The product, as it was last calculated.
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueStanding:
    """A task queue among those of its VO in which jobs wait."""

    task_queue: TaskQueue
    jobs: int
    #: Whether the number of jobs is the index's estimate.
    is_estimate: bool
    #: Whether no batch queue there is fits its jobs.
    runs_nowhere: bool
    #: 1: none has a higher priority; None: it is never drawn.
    rank: int | None
    terms: PriorityTerms
    #: Of longer jobs, which come first wherever they fit.
    longer: QueueSum
    #: Of its CPU segment: those with a higher priority, and all, itself included.
    higher: QueueSum
    segment: QueueSum

    @property
    def share_of_segment(self) -> float:
        """Return its part of the priorities of its CPU segment, 0 to 1."""
        return self.terms.priority / self.segment.priority if self.segment.priority else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueuePage:
    """One page of task queues, by priority, the highest first."""

    standings: Sequence[TaskQueueStanding]
    #: Of all pages.
    task_queues: int
    #: From 1.
    number: int
    pages: int


def task_queue_page(user: User, *, only_own: bool, number: int, now: datetime) -> TaskQueuePage:
    """Return a page of the task queues that *user* may see, or owns, in which jobs wait.

    Args:
        user: the reader.
        only_own: whether only those of the reader are listed.
        number: of the page, from 1; beyond the last: the last.
        now: the time.
    """
    snapshot = index.current()
    rows = np.flatnonzero(_visible(snapshot, user, only_own=only_own) & snapshot.has_jobs)
    rows = rows[np.lexsort((snapshot.columns.task_queue_id[rows], -snapshot.priority[rows]))]
    pages = max(1, -(-len(rows) // MOST_ON_PAGE))
    number = min(max(1, number), pages)
    shown = rows[(number - 1) * MOST_ON_PAGE : number * MOST_ON_PAGE]
    ids = snapshot.columns.task_queue_id[shown].tolist()
    found = TaskQueue.objects.visible_to(user).select_related("owner", "group__vo", "vo").in_bulk(ids)
    standings = _standings([found[pk] for pk in ids if pk in found], snapshot, now=now)
    # The index counts one job in a task queue that may have emptied.
    task_queues = len(rows) - len(shown) + len(standings)
    return TaskQueuePage(standings=standings, task_queues=task_queues, number=number, pages=pages)


def standing_of(task_queue: TaskQueue, *, now: datetime) -> TaskQueueStanding | None:
    """Return the standing of a task queue, loaded with owner, group and VO; None: no job waits in it any more."""
    return next(iter(_standings([task_queue], index.current(), now=now)), None)


def newest_jobs(task_queue: TaskQueue) -> list[int]:
    """Return the ids of the newest jobs of a task queue, those of the highest user priority first."""
    # Uses index: queued_job_oldest_of_its_kind, backwards
    jobs = QueuedJob.objects.filter(task_queue=task_queue).order_by("-user_priority", "-is_held_back", "-pk")
    return list(jobs.values_list("pk", flat=True)[:MOST_JOBS])


def _visible(snapshot: Snapshot, user: User, *, only_own: bool) -> Mask:
    """Return the task queues that *user* may see (``TaskQueue.objects.visible_to``), or owns, by row."""
    columns = snapshot.columns
    own: Mask = columns.owner_id == user.pk
    if only_own:
        return own
    if user.is_operator:
        return np.ones(len(columns), dtype=np.bool_)
    sharing = list(Group.objects.sharing().filter(memberships__user=user).values_list("pk", flat=True))
    managed = list(VO.objects.filter(managers=user).values_list("pk", flat=True))
    visible: Mask = own | np.isin(columns.group_id, sharing) | np.isin(columns.vo_id, managed)
    return visible


def _standings(task_queues: Sequence[TaskQueue], snapshot: Snapshot, *, now: datetime) -> list[TaskQueueStanding]:
    estimates = snapshot.jobs.sum(axis=1)
    row_of = {each.pk: row for each in task_queues if (row := snapshot.row_of.get(each.pk)) is not None}
    counted = jobs_in([pk for pk, row in row_of.items() if estimates[row] <= COUNTED_UP_TO])
    corrections = _corrections({each.vo_id for each in task_queues})
    nowhere = {vo: runs_nowhere(snapshot, vo, now=now) for vo in {each.vo for each in task_queues}}
    owners_in = {each.group_id: _owners(snapshot, each.group_id) for each in task_queues}
    standings = []
    for task_queue in task_queues:
        row = row_of.get(task_queue.pk)
        if row is None:
            continue
        is_estimate = bool(estimates[row] > COUNTED_UP_TO)
        jobs = int(estimates[row]) if is_estimate else counted.get(task_queue.pk, 0)
        if jobs:
            correction = corrections.get(task_queue.group_id) if task_queue.vo.history_fair_share else None
            terms = _terms(task_queue, float(snapshot.priority[row]), correction, owners=owners_in[task_queue.group_id])
            competing = CompetingQueues(snapshot, row, nowhere=nowhere[task_queue.vo])
            standings.append(
                TaskQueueStanding(
                    task_queue=task_queue,
                    jobs=jobs,
                    is_estimate=is_estimate,
                    runs_nowhere=competing.runs_nowhere,
                    rank=None if competing.runs_nowhere or terms.priority <= 0 else competing.rank,
                    terms=terms,
                    longer=competing.longer,
                    higher=competing.higher,
                    segment=competing.segment,
                )
            )
    return standings


def _corrections(vo_ids: Collection[int]) -> Mapping[int, float]:
    """Return {group: factor by which history corrects its share}, whether or not it is applied."""
    return {pk: share.factor * share.normalization for pk, share in corrected_shares(vo_ids=vo_ids).items()}


def _owners(snapshot: Snapshot, group_id: int) -> int:
    """Return the number of owners among whom the share of a group is divided."""
    columns = snapshot.columns
    dividing = (columns.group_id == group_id) & columns.trusted & snapshot.has_jobs
    return len(np.unique(columns.owner_id[dividing]))


def _terms(task_queue: TaskQueue, priority: float, correction: float | None, *, owners: int) -> PriorityTerms:
    group = task_queue.group
    in_effect = group.priority * (1.0 if correction is None else correction)
    among = None if group.shares_jobs else max(1, owners)
    of_entity = in_effect / (among or 1)
    return PriorityTerms(
        share=group.priority,
        correction=correction,
        owners=among,
        part=min(1.0, priority / of_entity) if of_entity >= LEAST_SHARE else 0.0,
        priority=priority,
    )


class CompetingQueues:
    """The rank of a task queue among those of its VO in which jobs wait, and sums of those drawn before and with it.

    Those whose jobs no batch queue fits are not among them.
    """

    def __init__(self, snapshot: Snapshot, row: int, *, nowhere: Mask) -> None:
        """Compute them.

        Args:
            snapshot: all task queues.
            row: of the task queue.
            nowhere: those of its VO that no batch queue fits, from ``runs_nowhere``.
        """
        self._snapshot = snapshot
        columns, priorities = snapshot.columns, snapshot.priority
        #: Whether the task queue is one of them.
        self.runs_nowhere = bool(nowhere[row])
        competing = (columns.vo_id == columns.vo_id[row]) & snapshot.has_jobs & ~nowhere
        above, drawn = competing & (priorities > priorities[row]), competing & (priorities > 0)
        in_segment = drawn & (columns.cpu_time_s == columns.cpu_time_s[row])
        #: 1: none has a higher priority.
        self.rank = 1 + int(np.count_nonzero(above))
        self.longer = self._sum(drawn & (columns.cpu_time_s > columns.cpu_time_s[row]))
        self.higher = self._sum(in_segment & above)
        self.segment = self._sum(in_segment)
        self.drawn = self._sum(drawn)

    def _sum(self, rows: Mask) -> QueueSum:
        return QueueSum(
            queues=int(np.count_nonzero(rows)),
            jobs=int(self._snapshot.jobs[rows].sum()),
            priority=float(self._snapshot.priority[rows].sum()),
        )
