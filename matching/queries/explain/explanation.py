"""Explanation of a waiting job: the result of each condition of the match at each queue."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest

import numpy as np

from matching.domain.headline import Ground, HeadlineKind, headline
from matching.queries.explain.advice import advice
from matching.queries.explain.checking import quota_that_holds_back, why_checking
from matching.queries.explain.condition_texts import (
    RequiredOf,
    WaitingRequirements,
    causes_of_job,
    reason,
)
from matching.queries.explain.doubts import RequirementsOf, doubt_about
from matching.queries.explain.held_back import HeldBackState, held_back_of
from matching.queries.explain.pilots import PilotsThere, living_pilots, pilots_there
from matching.queries.explain.places import ComparedPlace, Comparison, ExplainedCondition, Room, conditions_at
from matching.queries.explain.summary import Findings, QueueRank, not_waiting, waiting
from resources.models import Queue
from resources.queries.nodes import reported_platforms
from resources.queries.places import resolve_place
from taskqueues.domain.queue_check import Judge
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from wms.accounts.queries import memberships_among
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import description_doubts
from wms.kernel.names import listed

#: Queues in the answer; those that fit, then those with the fewest failed conditions, come first.
MOST_QUEUES = 200
#: Comparisons of a task queue with one queue, after which no other task queue is explained together with those before.
MOST_COMPARED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedQueue:
    """The result for one queue: a pilot there may get the job, or all reasons why not."""

    site: str
    ce: str
    queue: str
    fits: bool
    reasons: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of a job; one that is not waiting has neither conditions nor queues."""

    job: Job
    summary: str
    task_queue_id: int | None = None
    standing: QueueRank | None = None
    conditions: Sequence[ExplainedCondition] = ()
    queues: Sequence[ExplainedQueue] = ()
    #: Limits and throttles that hold it back where it would fit otherwise.
    limits: Sequence[str] = ()
    #: Changes of the job that would let it fit more queues, in sentences, the most helpful first.
    advice: Sequence[str] = ()
    #: Limits and throttles that apply to it where it fits, or would fit otherwise, full or not.
    rooms: Sequence[Room] = ()
    #: The warnings that a submission of the job would get now (ADR 32).
    warnings: Sequence[str] = ()


def explain(job: Job, *, task_queue_id: int | None, now: datetime, site: str | None = None) -> Explanation:
    """Return why *job*, which has its related rows loaded, waits.

    Args:
        job: of any status.
        task_queue_id: task queue of the job; None: none.
        now: time for which bans are evaluated.
        site: limits the queues in the answer to this site; conditions and summary are about all sites.

    Raises:
        UnknownPlaceError: no such site serves the job's VO.
    """
    if site is not None:
        resolve_place(job.vo, site=site)
    if job.status == JobStatus.CHECKING:
        return Explanation(job=job, summary=why_checking(job), limits=quota_that_holds_back(job))
    if job.status != JobStatus.WAITING or task_queue_id is None:
        return Explanation(job=job, summary=not_waiting(job))
    task_queue = TaskQueue.objects.select_related("owner", "group__vo", "vo").filter(pk=task_queue_id).first()
    snapshot = index.renewed()
    row = snapshot.row_of.get(task_queue_id)
    if task_queue is None or row is None:  # its last job has been taken in the meantime
        return Explanation(job=job, summary=not_waiting(job))
    nodes = reported_platforms(now=now) if task_queue.platforms else {}
    comparison = Comparison([task_queue], vo=task_queue.group.vo, nodes=nodes, memo=snapshot.memo, now=now)
    return _Explainer(
        snapshot=snapshot,
        comparison=comparison,
        members=memberships_among([(task_queue.owner_id, task_queue.group_id)]),
        pilots_at=lambda task_queue, queues: pilots_there(task_queue, queues, now=now),
    ).explained(
        job,
        task_queue,
        row=row,
        requirements=RequirementsOf(job.vo).of(job.description["requirements"]),
        waits=held_back_of([job.pk], now=snapshot.now())[job.pk],
        site=site,
        doubts=description_doubts(job),
    )


def explain_each(jobs: Mapping[int, Job], *, now: datetime) -> dict[int, Explanation]:
    """Return, for each task queue of *jobs*, why its job waits; what several need is read once.

    Of pilots only the number is read: ``explain`` tells more for one job. Task queues that have emptied are missing,
    and the last ones beyond MOST_COMPARED.

    Args:
        jobs: {task queue: a job of it, with its description loaded}.
        now: time for which bans are evaluated.
    """
    snapshot = index.current()
    task_queues = TaskQueue.objects.select_related("owner", "group__vo", "vo").in_bulk(list(jobs))
    of_vo: defaultdict[int, list[TaskQueue]] = defaultdict(list)
    for task_queue in task_queues.values():
        of_vo[task_queue.vo_id].append(task_queue)
    nodes = reported_platforms(now=now)
    members = memberships_among([(task_queue.owner_id, task_queue.group_id) for task_queue in task_queues.values()])
    waits = held_back_of([job.pk for job in jobs.values()], now=snapshot.now())
    pilots = living_pilots(vo_ids=list(of_vo))
    explainers = {
        vo_id: _Explainer(
            snapshot=snapshot,
            comparison=Comparison(of_one, vo=of_one[0].group.vo, nodes=nodes, memo=snapshot.memo, now=now),
            members=members,
            pilots_at=pilots.there,
            with_queues=False,
        )
        for vo_id, of_one in of_vo.items()
    }
    requirements = {vo_id: RequirementsOf(of_one[0].group.vo) for vo_id, of_one in of_vo.items()}
    explained: dict[int, Explanation] = {}
    compared = 0
    for task_queue_id, job in jobs.items():
        row = snapshot.row_of.get(task_queue_id)
        if row is None or task_queue_id not in task_queues:
            continue
        if compared >= MOST_COMPARED:
            break
        task_queue = task_queues[task_queue_id]
        explainer = explainers[task_queue.vo_id]
        compared += len(explainer.comparison.queues)
        required = requirements[task_queue.vo_id].of(job.description["requirements"])
        explained[task_queue_id] = explainer.explained(
            job, task_queue, row=row, requirements=required, waits=waits[job.pk]
        )
    return explained


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explainer:
    """The explanation of jobs of one VO, from facts that are read once."""

    snapshot: Snapshot
    comparison: Comparison
    #: (owner, group) of the task queues whose owner is a member of the group.
    members: frozenset[tuple[int, int]]
    pilots_at: Callable[[TaskQueue, Sequence[Queue]], PilotsThere]
    #: Whether the queues are listed with their reasons.
    with_queues: bool = True

    def explained(
        self,
        job: Job,
        task_queue: TaskQueue,
        *,
        row: int,
        requirements: RequiredOf | None,
        waits: HeldBackState,
        site: str | None = None,
        doubts: Sequence[str] = (),
    ) -> Explanation:
        """Return why a job of a task queue, which has this row in the index, waits."""
        judge = Judge(self.snapshot.columns.take(np.array([row])))
        needs = WaitingRequirements(
            task_queue=task_queue,
            description=job.description,
            # Untrusted in the index: suspended, or not a member, or both.
            is_of_member=bool(self.snapshot.columns.trusted[row])
            or (task_queue.owner_id, task_queue.group_id) in self.members,
            requirements=requirements,
        )
        places = list(self.comparison.places(task_queue, judge, waits=waits))
        conditions = conditions_at(judge, needs, places)
        findings = self._findings(needs, places, conditions, row=row, waits=waits)
        near = [place for place in places if not place.unmet]
        in_answer = [place for place in places if self.with_queues and site in {None, place.offer.site}]
        return Explanation(
            job=job,
            summary=waiting(needs, findings),
            task_queue_id=task_queue.pk,
            standing=findings.standing,
            conditions=conditions,
            queues=_nearest(in_answer, needs),
            limits=tuple(_holding(places)),
            advice=[] if findings.headline.verdict is HeadlineKind.NEVER_DRAWN else advice(needs, places),
            rooms=tuple(self.comparison.rooms(task_queue, near)),
            warnings=tuple(filter(None, [*doubts, doubt_about(needs, places, conditions)])),
        )

    def _findings(
        self,
        needs: WaitingRequirements,
        places: Sequence[ComparedPlace],
        conditions: Sequence[ExplainedCondition],
        *,
        row: int,
        waits: HeldBackState,
    ) -> Findings:
        of_job = causes_of_job(needs)
        may_be_drawn = not of_job and any(not place.failed or place.is_only_closed for place in places)
        fitting = [place.queue for place in places if not place.causes]
        pilots = self.pilots_at(needs.task_queue, fitting) if fitting else PilotsThere()
        return Findings(
            queues=len(places),
            headline=headline(
                of_job=(*of_job, *waits.delays),
                queues=[place.causes for place in places],
                no_pilots=pilots.no_pilots,
            ),
            details={condition.name: condition.detail for condition in conditions},
            standing=_standing(self.snapshot, row, may_be_drawn=may_be_drawn),
            pilots=pilots,
            goes_elsewhere=waits.goes_elsewhere,
        )


def _holding(places: Sequence[ComparedPlace]) -> dict[str, None]:
    """Return the limits and throttles that hold the job back where it would fit otherwise, each once."""
    return {
        cause.words: None
        for place in places
        if place.is_only_closed
        for cause in place.causes
        if cause.ground in {Ground.THROTTLE, Ground.LIMIT}
    }


def _standing(snapshot: Snapshot, row: int, *, may_be_drawn: bool) -> QueueRank:
    columns, priorities = snapshot.columns, snapshot.priority
    competing = (columns.vo_id == columns.vo_id[row]) & snapshot.has_jobs
    of_segment = float(priorities[competing & (columns.cpu_time_s == columns.cpu_time_s[row])].sum())
    priority = float(priorities[row])
    longer = competing & (columns.cpu_time_s > columns.cpu_time_s[row]) & (priorities > 0)
    return QueueRank(
        rank=1 + int(np.count_nonzero(competing & (priorities > priority))) if may_be_drawn else None,
        share=priority / of_segment if may_be_drawn and of_segment else 0.0,
        longer=int(np.count_nonzero(longer)),
    )


def _nearest(places: Sequence[ComparedPlace], needs: WaitingRequirements) -> list[ExplainedQueue]:
    """Return the queues that fit, then those with the fewest failed conditions, each in their order."""
    return [
        ExplainedQueue(
            site=place.queue.ce.site.name,
            ce=place.queue.ce.name,
            queue=place.queue.name,
            fits=not place.causes,
            reasons=_reasons(place, needs),
        )
        for place in nsmallest(MOST_QUEUES, places, key=lambda place: max(len(place.failed), bool(place.causes)))
    ]


def _reasons(place: ComparedPlace, needs: WaitingRequirements) -> list[str]:
    return [
        _refusal(cause.words, place, needs) if cause.ground is Ground.CONDITION else cause.words
        for cause in place.causes
    ]


def _refusal(name: str, place: ComparedPlace, needs: WaitingRequirements) -> str:
    """Return why one condition refuses the queue."""
    words = reason(name, needs, place.offer, queue_id=place.queue.pk)
    if name != "platform" or not place.nodes:
        return words
    configured = f" (configured: {listed(place.queue.platforms)})" if place.queue.platforms else ""
    return f"{words}; nodes of this queue{configured} report {listed(place.nodes)}"
