"""Jobs that no pilot gets, or is sent for, in the present configuration (ADR 32)."""

from bisect import bisect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, islice
from typing import Final

import numpy as np
from django.db.models import OuterRef, Subquery

from matching.domain.findings import ConditionCount, Findings, WaitingRequirements
from matching.domain.headline import Ground, Headline, HeadlineKind, headline
from matching.domain.sentences import waiting
from matching.queries.explain.comparison import (
    ComparedPlace,
    Comparison,
    causes_of_job,
    comparisons,
    counts_at,
    judge_of,
)
from matching.queries.explain.pilots import is_known_middleware
from resources.queries.places import ends_of_states
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.kernel.memo import BriefMemo, CachedLookups, state_of

#: Task queues that are examined: those of the user with the most jobs.
MOST_EXAMINED: Final = 20
#: Comparisons of a task queue with a queue in one call; the next calls examine the others.
MOST_COMPARED: Final = 4_000
#: Causes that pass within minutes, and limits, which managers have set: no warning is given for them.
_PASSING: Final = frozenset({Ground.THROTTLE, Ground.LIMIT, Ground.CLOSING_LIMIT, Ground.DELAY})
#: Headlines with which no pilot gets the job until somebody changes something.
_LASTING: Final = frozenset(
    {HeadlineKind.NEVER_DRAWN, HeadlineKind.NO_QUEUES, HeadlineKind.MISMATCH, HeadlineKind.CLOSED}
)
#: Reasons by task queue, configuration, and bans that have ended by themselves.
_reasons: Final[BriefMemo[str]] = BriefMemo(kept_s=60)


def unmatched(comparison: Comparison, needs: WaitingRequirements) -> Findings | None:
    """Return why no pilot gets these jobs, or is sent for them; None: one may.

    Args:
        comparison: without throttles and limits.
        needs: of the jobs.
    """
    judge, of_job = judge_of(needs), causes_of_job(needs)
    sites, middlewares = needs.definition.sites, needs.definition.grid_middlewares
    places: list[ComparedPlace] = []
    # First the queues of the sites that it names, of which mostly one fits, and only if none does all of the VO.
    for among in (sites, None) if sites else (None,):
        places = []
        for place in comparison.places(needs, judge, sites=among):
            if not place.causes and not of_job and place.queue.ce.is_one_of(middlewares):
                # The remaining queues, perhaps thousands, cannot change that.
                return None
            places.append(place)
    return unmatched_at(comparison, needs, places, counts_at(judge, places))


def unmatched_at(
    comparison: Comparison,
    needs: WaitingRequirements,
    places: Sequence[ComparedPlace],
    conditions: Sequence[ConditionCount],
) -> Findings | None:
    """Return why no pilot gets the jobs, or is sent for them, given the causes at all places; None: one may.

    Causes that pass within minutes are left out.
    """
    lasting = [[cause for cause in place.causes if cause.ground not in _PASSING] for place in places]
    found = headline(of_job=causes_of_job(needs), queues=lasting)
    if found.verdict not in _LASTING:
        middlewares = needs.definition.grid_middlewares
        fitting = [place.queue for place, causes in zip(places, lasting, strict=True) if not causes]
        # If no computing element at all has one, the description's own warning says so.
        if any(queue.ce.is_one_of(middlewares) for queue in fitting) or not is_known_middleware(
            middlewares, vo=comparison.vo
        ):
            return None
        found = Headline(verdict=HeadlineKind.OTHER_MIDDLEWARE, queues=len(fitting))
    return Findings(needs=needs, headline=found, conditions=conditions, queues=len(places))


# ---- of one user -----------------------------------------------------------------------------------------------------


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
    unmatched_ids = [each.task_queue_id for each in unmatched_jobs_of(owner, now=now)]
    if not unmatched_ids:
        return frozenset()
    rows = TaskQueue.objects.select_related("owner", "group__vo", "vo").in_bulk(unmatched_ids)
    examination = _Examination(index.current(), dict.fromkeys(rows.values(), 0), now=now)
    # What the jobs require of resources is in their submit pools.
    places = chain.from_iterable(
        examination.comparisons[task_queue.vo_id].places(needs, judge_of(needs), sites=sites)
        for task_queue in rows.values()
        if (needs := examination.needs(task_queue, {"requirements": {}})) is not None
    )
    return frozenset(
        (place.queue.ce.site_id, place.queue.ce_id, place.queue.pk)
        for place in islice(places, MOST_COMPARED)
        if place.causes and all(cause.ground is Ground.BAN for cause in place.causes)
    )


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
        self.comparisons = comparisons(job_of, memo=snapshot.memo, now=now, with_closings=False)
        self._compared = 0

    @cached_property
    def _descriptions(self) -> Mapping[int, Mapping[str, object]]:
        """The description of one job of each task queue, by the job's id."""
        jobs = Job.objects.with_description().filter(pk__in=self._job_of.values())
        return {job.pk: job.description for job in jobs}

    def needs(self, task_queue: TaskQueue, description: Mapping[str, object]) -> WaitingRequirements | None:
        """Return the requirements of the jobs of a task queue; None: it has emptied."""
        row = self._snapshot.row_of.get(task_queue.pk)
        if row is None:
            return None
        # Whoever asks is not suspended.
        is_member = bool(self._snapshot.columns.trusted[row])
        return self.comparisons[task_queue.vo_id].needs_of(task_queue, description, is_member=is_member)

    def reason(self, task_queue: TaskQueue) -> str:
        """Return why no pilot can get the jobs of the task queue; empty: one may, or too many were compared."""
        if self._compared >= MOST_COMPARED:
            return ""
        memo = self._snapshot.memo
        ended_bans = bisect(CachedLookups(memo).get(ends_of_states), self._now)
        key = (task_queue.pk, task_queue.group.priority, state_of(memo), ended_bans)
        return _reasons.get(key, lambda: self._examined(task_queue))

    def _examined(self, task_queue: TaskQueue) -> str:
        description = self._descriptions.get(self._job_of[task_queue])
        needs = None if description is None else self.needs(task_queue, description)
        comparison = self.comparisons[task_queue.vo_id]
        if needs is None or (found := unmatched(comparison, needs)) is None:
            return ""
        self._compared += len(comparison.queues)
        return waiting(found)
