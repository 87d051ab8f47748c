"""Task queues of a user whose jobs no pilot can get in the present configuration, as submission would warn (ADR 32)."""

from bisect import bisect
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Any, Final

import numpy as np
from django.db.models import OuterRef, Subquery

from matching.domain.headline import Ground
from matching.queries.explain.doubts import doubts_about_queue
from matching.queries.explain.held_back import HeldBackState
from matching.queries.explain.places import ComparedPlace, Comparison
from resources.queries.nodes import reported_platforms
from resources.queries.places import ends_of_states, queues_at_hand
from taskqueues.domain.queue_check import Judge
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.kernel.memo import BriefMemo, CachedLookups, Memo

#: Task queues that are examined: those of the user with the most jobs.
MOST_EXAMINED: Final = 20
#: Comparisons of a task queue with a queue in one call; the next calls examine the others.
MOST_COMPARED: Final = 4_000
#: Reasons by task queue, configuration, and bans that have ended by themselves.
_reasons: Final[BriefMemo[tuple[str, Memo]]] = BriefMemo(kept_s=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmatchedJobs:
    """The waiting jobs of a task queue that no pilot can get."""

    task_queue_id: int
    #: About: as the index counts them.
    jobs: int
    #: One of the jobs.
    job_id: int
    #: One sentence, in the words of explain.
    reason: str


def unmatched_jobs_of(owner: User, *, now: datetime) -> list[UnmatchedJobs]:
    """Return the jobs of *owner* that no pilot can get; of the task queues with the most jobs, the largest first.

    The result for a task queue is kept for a minute, unless the configuration changes or a ban ends.

    Args:
        owner: of the jobs.
        now: time for which bans are evaluated.
    """
    snapshot = index.current()
    rows = np.flatnonzero((snapshot.columns.owner_id == owner.pk) & snapshot.has_jobs)
    jobs = snapshot.jobs[rows].sum(axis=1)
    largest = np.argsort(-jobs, kind="stable")[:MOST_EXAMINED]
    count_of = {int(snapshot.columns.task_queue_id[rows[each]]): int(jobs[each]) for each in largest}
    if not count_of:
        return []
    job_of = _first_jobs(count_of)
    examination = _Examination(snapshot, job_of, now=now)
    return [
        UnmatchedJobs(
            task_queue_id=task_queue.pk, jobs=count_of[task_queue.pk], job_id=job_of[task_queue], reason=reason
        )
        for task_queue in sorted(job_of, key=lambda each: (-count_of[each.pk], each.pk))
        if (reason := examination.reason(task_queue))
    ]


def places_only_closed_for(owner: User, *, sites: Collection[str], now: datetime) -> frozenset[tuple[int, int, int]]:
    """Return the queues that would fit waiting jobs of *owner* that no pilot can get, were they not closed.

    Args:
        owner: of the jobs.
        sites: whose queues are compared, up to MOST_COMPARED comparisons.
        now: time for which bans are evaluated.

    Returns:
        Primary keys of site, computing element and queue.
    """
    unmatched = [each.task_queue_id for each in unmatched_jobs_of(owner, now=now)]
    if not unmatched:
        return frozenset()
    task_queues = TaskQueue.objects.select_related("owner", "group__vo", "vo").in_bulk(unmatched)
    places = islice(_compared(list(task_queues.values()), sites=sites, now=now), MOST_COMPARED)
    return frozenset(
        (place.queue.ce.site_id, place.queue.ce_id, place.queue.pk)
        for place in places
        if place.causes and all(cause.ground is Ground.BAN for cause in place.causes)
    )


def _compared(task_queues: Sequence[TaskQueue], *, sites: Collection[str], now: datetime) -> Iterator[ComparedPlace]:
    snapshot = index.current()
    nodes = reported_platforms(now=now) if any(each.platforms for each in task_queues) else {}
    for task_queue in task_queues:
        row = snapshot.row_of.get(task_queue.pk)
        if row is None:
            continue
        judge = Judge(snapshot.columns.take(np.array([row])))
        comparison = Comparison(
            [task_queue], vo=task_queue.group.vo, nodes=nodes, memo=snapshot.memo, now=now, closings=False
        )
        yield from comparison.places(task_queue, judge, waits=HeldBackState(), sites=sites)


def _first_jobs(task_queue_ids: Collection[int]) -> Mapping[TaskQueue, int]:
    """Return {task queue: id of one of its jobs}; those that have become empty are missing."""
    # Uses index: queued_job_oldest_of_its_kind
    one = QueuedJob.objects.filter(task_queue=OuterRef("pk")).order_by("user_priority", "is_held_back", "pk")
    rows = TaskQueue.objects.filter(pk__in=list(task_queue_ids)).select_related("owner", "group__vo", "vo")
    found = rows.annotate(job_id=Subquery(one.values("pk")[:1]))
    return {task_queue: job_id for task_queue in found if (job_id := vars(task_queue)["job_id"]) is not None}


class _Examination:
    """The examination of task queues; what several need is read once, when needed."""

    def __init__(self, snapshot: Snapshot, job_of: Mapping[TaskQueue, int], *, now: datetime) -> None:
        self._snapshot, self._job_of, self._now = snapshot, job_of, now
        self._compared = 0

    @cached_property
    def _nodes(self) -> Mapping[int, tuple[str, ...]]:
        return reported_platforms(now=self._now)

    @cached_property
    def _descriptions(self) -> Mapping[int, Mapping[str, Any]]:
        """The description of one job of each task queue, by the job's id."""
        jobs = Job.objects.with_description().filter(pk__in=self._job_of.values())
        return {job.pk: job.description for job in jobs}

    def reason(self, task_queue: TaskQueue) -> str:
        """Return why no pilot can get the jobs of the task queue; empty: one may, or too many were compared."""
        if self._compared >= MOST_COMPARED:
            return ""
        memo = self._snapshot.memo
        # The memo is another one after each change of the configuration; kept with the result, its id is not reused.
        ended_bans = bisect(CachedLookups(memo).get(ends_of_states), self._now)
        key = (task_queue.pk, task_queue.group.priority, id(memo), ended_bans)
        reason, _ = _reasons.get(key, lambda: (self._examined(task_queue), memo))
        return reason

    def _examined(self, task_queue: TaskQueue) -> str:
        snapshot = self._snapshot
        row = snapshot.row_of.get(task_queue.pk)
        description = self._descriptions.get(self._job_of[task_queue])
        if row is None or description is None:
            return ""
        reason = doubts_about_queue(
            task_queue,
            columns=snapshot.columns.take(np.array([row])),
            description=description,
            nodes=self._nodes if task_queue.platforms else {},
            memo=snapshot.memo,
            now=self._now,
            # Whoever asks is not suspended.
            is_of_member=bool(snapshot.columns.trusted[row]),
        )
        if reason:
            self._compared += len(CachedLookups(snapshot.memo).get(queues_at_hand, task_queue.group.vo))
        return reason
