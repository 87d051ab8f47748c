"""Explanation of a job, or of a selection by task queue: the result of each condition of the match at each queue."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from heapq import nsmallest
from itertools import islice
from types import MappingProxyType
from typing import Final

from django.db.models import Count, Max, Min

from matching.domain.findings import (
    Advice,
    CheckedData,
    ConditionCount,
    ExplainedQueue,
    Explanation,
    Findings,
    PilotsThere,
    QueueRank,
    WaitingRequirements,
)
from matching.domain.headline import Cause, Ground, HeadlineKind, headline
from matching.queries.explain.advice import advice
from matching.queries.explain.comparison import (
    ComparedPlace,
    Comparison,
    HeldBackState,
    causes_of_job,
    comparisons,
    counts_at,
    held_back_of,
    judge_of,
)
from matching.queries.explain.pilots import LivingPilots, living_pilots, living_there, pilots_there
from matching.queries.explain.start import Starts
from matching.queries.explain.unmatched import unmatched_at
from matching.queries.task_queues import COUNTED_UP_TO, CompetingQueues
from matching.queries.unmatched_counts import runs_nowhere
from resources.models import Queue
from resources.queries.places import resolve_place
from taskqueues.domain.columns import Mask
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.queries import jobs_in
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from taskqueues.services.quotas import QuotaKind, full_in_words
from wms.accounts.models import VO, User
from wms.accounts.queries import memberships_among
from wms.jobs.domain.data import WAITS_FOR_ROOM, narrowed
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.time_left import TimeRange
from wms.jobs.models import Job
from wms.jobs.queries import description_warnings, in_list
from wms.jobs.queries.filtering import JobFilters
from wms.jobs.queries.found_jobs import Extent, find
from wms.jobs.services.input_data import Located

#: Queues in the answer; those that fit, then those with the fewest failed conditions, come first.
MOST_QUEUES = 200
#: Comparisons of a task queue with one queue, after which no other task queue is explained together with those before.
MOST_COMPARED = 20_000
#: Waiting jobs of the selection that are looked up in their task queues: the newest.
MOST_JOBS: Final = 5000
#: Task queues that are explained: those with most of these jobs. Each is compared with every queue of its VO.
MOST_TASK_QUEUES: Final = 30
#: Of these, those whose starts are estimated.
_MOST_ESTIMATED: Final = 5
#: Fraction of the priorities of all task queues that are drawn with one, from which on it is next in line.
_NEARLY_ALL: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTaskQueue:
    """Jobs of the selection with identical requirements, and why one of them, as all, waits."""

    task_queue_id: int
    jobs: int
    #: The job that is explained.
    example: Job
    explanation: Explanation


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedSelection:
    """The explanation of the waiting jobs of a selection."""

    #: Those that were looked up; more than MOST_JOBS are not.
    jobs: int
    #: Whether the selection has more waiting jobs.
    has_more: bool
    #: With most jobs first.
    task_queues: Sequence[ExplainedTaskQueue]
    #: Further task queues that hold some of the jobs, and the number of these.
    further_task_queues: int
    further_jobs: int


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
    if job.status != JobStatus.WAITING or task_queue_id is None:
        return state_of(job)
    task_queue = TaskQueue.objects.select_related("owner", "group__vo", "vo").filter(pk=task_queue_id).first()
    snapshot = index.renewed()
    row = snapshot.row_of.get(task_queue_id)
    if task_queue is None or row is None:  # its last job has been taken in the meantime
        return state_of(job)
    queued = QueuedJob.objects.filter(pk=job.pk).first()
    living = living_pilots(vo_ids=[task_queue.vo_id])
    there = partial(pilots_there, living=living, now=now)
    return _Explainer([task_queue], snapshot, living=living, pilots_at=there, now=now).explained(
        job,
        task_queue,
        row=row,
        queued=[] if queued is None else [queued],
        waits=held_back_of(queued, now=snapshot.now()),
        is_listed=lambda queue: site in {None, queue.ce.site.name},
        warnings=description_warnings(job),
    )


def explain_each(
    jobs: Mapping[int, Job], *, last: Mapping[int, int] = MappingProxyType({}), now: datetime
) -> dict[int, Explanation]:
    """Return, for each task queue of *jobs*, why its job waits; what several need is read once.

    Of pilots only the number is read, and queues are not listed: ``explain`` tells more for one job. Task queues that
    have emptied are missing, and the last ones beyond MOST_COMPARED. The time until they start is estimated for the
    first few.

    Args:
        jobs: {task queue: a job of it, with its description loaded}.
        last: {task queue: id of the job whose start is estimated, too}.
        now: time for which bans are evaluated.
    """
    snapshot = index.current()
    task_queues = TaskQueue.objects.select_related("owner", "group__vo", "vo").in_bulk(list(jobs))
    living = living_pilots(vo_ids={task_queue.vo_id for task_queue in task_queues.values()})
    there = partial(living_there, living=living)
    explainer = _Explainer(task_queues.values(), snapshot, living=living, pilots_at=there, now=now)
    estimated = {
        each: dict.fromkeys([job.pk, last.get(each, job.pk)]) for each, job in islice(jobs.items(), _MOST_ESTIMATED)
    }
    in_question = {job_id for job_ids in estimated.values() for job_id in job_ids}
    queued = QueuedJob.objects.in_bulk([job.pk for job in jobs.values()] + list(in_question))
    explained: dict[int, Explanation] = {}
    compared = 0
    for task_queue_id, job in jobs.items():
        row, task_queue = snapshot.row_of.get(task_queue_id), task_queues.get(task_queue_id)
        if row is None or task_queue is None:
            continue
        if compared >= MOST_COMPARED:
            break
        compared += len(explainer.comparisons[task_queue.vo_id].queues)
        explained[task_queue_id] = explainer.explained(
            job,
            task_queue,
            row=row,
            queued=[queued[job_id] for job_id in estimated.get(task_queue_id, ()) if job_id in queued],
            waits=held_back_of(queued.get(job.pk), now=snapshot.now()),
        )
    return explained


def explain_selection(
    filters: JobFilters, *, by: User, now: datetime, most: int = MOST_TASK_QUEUES
) -> ExplainedSelection:
    """Return why the jobs of a filtered list wait, of those visible to *by*.

    Args:
        filters: those of the list, with the status Waiting only.
        by: the reader.
        now: time for which bans are evaluated.
        most: task queues that are explained.
    """
    newest = find(filters, Extent(at_most=MOST_JOBS + 1), by=by)
    job_ids = list(newest.values_list("pk", flat=True))
    # Uses index: taskqueues_queuedjob_pkey
    queued = QueuedJob.objects.filter(pk__among=job_ids[:MOST_JOBS]).values_list("task_queue_id")
    sums = queued.annotate(jobs=Count("pk"), first=Min("pk"), last=Max("pk"))
    counts = list(sums.order_by("-jobs", "task_queue_id"))
    shown = counts[:most]
    of_first = in_list(Job.objects.visible_to(by)).with_description().in_bulk([first for *_, first, _ in shown])
    examples = {task_queue_id: of_first[first] for task_queue_id, _, first, _ in shown if first in of_first}
    explained = explain_each(examples, last={task_queue_id: last for task_queue_id, *_, last in shown}, now=now)
    further = [jobs for task_queue_id, jobs, *_ in counts if task_queue_id not in explained]
    return ExplainedSelection(
        jobs=sum(jobs for _, jobs, *_ in counts),
        has_more=len(job_ids) > MOST_JOBS,
        task_queues=[
            ExplainedTaskQueue(
                task_queue_id=task_queue_id,
                jobs=jobs,
                example=examples[task_queue_id],
                explanation=explained[task_queue_id],
            )
            for task_queue_id, jobs, *_ in shown
            if task_queue_id in explained
        ],
        further_task_queues=len(further),
        further_jobs=sum(further),
    )


def state_of(job: Job) -> Explanation:
    """Return the state of a job that is in no task queue."""
    checked = _checked(job) if job.status == JobStatus.CHECKING else None
    # Only where it may be the reason.
    waits_for_room = checked is not None and (job.minor_status == WAITS_FOR_ROOM or checked.is_there)
    return Explanation(
        status=job.status,
        minor_status=job.minor_status,
        site="" if job.site is None else job.site.name,
        checked=checked,
        quota=full_in_words(QuotaKind.of(job)) if waits_for_room else "",
    )


def _checked(job: Job) -> CheckedData:
    """Return the present state of the input data of a Checking job (PIL §2.2)."""
    description = job.description
    files = tuple(description["input_data"])
    located = Located([files], vo_id=job.vo_id)
    holding = located.sites(files)
    places = narrowed(description["sites"], banned_sites=description["banned_sites"], holding=holding)
    return CheckedData(files=files, missing=located.missing(files), sites=holding, may_run=places is not None)


class _Explainer:
    """The explanation of jobs of some task queues, from facts that are read once."""

    def __init__(
        self,
        task_queues: Collection[TaskQueue],
        snapshot: Snapshot,
        *,
        living: LivingPilots,
        pilots_at: Callable[[TaskQueue, Sequence[Queue]], PilotsThere],
        now: datetime,
    ) -> None:
        self._snapshot, self._living, self._pilots_at, self._now = snapshot, living, pilots_at, now
        #: By VO.
        self._starts: dict[int, Starts] = {}
        self._nowhere = {each.vo_id: runs_nowhere(snapshot, each.vo, now=now) for each in task_queues}
        #: By VO, with throttles and limits.
        self.comparisons = comparisons(task_queues, memo=snapshot.memo, now=now, with_closings=True)
        #: (owner, group) of the task queues whose owner is a member of the group.
        self._members = memberships_among([(each.owner_id, each.group_id) for each in task_queues])

    def explained(
        self,
        job: Job,
        task_queue: TaskQueue,
        *,
        row: int,
        queued: Sequence[QueuedJob],
        waits: HeldBackState,
        is_listed: Callable[[Queue], bool] = lambda _queue: False,
        warnings: Sequence[str] = (),
    ) -> Explanation:
        """Return why a job of a task queue waits.

        Args:
            job: with its description.
            task_queue: with owner, group and VO.
            row: of the task queue in the index.
            queued: the job, or the first and the last of a selection, whose start is estimated.
            waits: what holds the job back.
            is_listed: whether a queue is listed with its reasons.
            warnings: about the description.
        """
        comparison = self.comparisons[task_queue.vo_id]
        needs = comparison.needs_of(task_queue, job.description, is_member=self._is_of_member(task_queue, row))
        judge = judge_of(needs)
        places = list(comparison.places(needs, judge, waits=waits))
        conditions = counts_at(judge, places)
        findings = self._findings(needs, places, conditions, task_queue=task_queue, row=row, queued=queued, waits=waits)
        is_never_drawn = findings.headline.verdict is HeadlineKind.NEVER_DRAWN
        return Explanation(
            status=job.status,
            minor_status=job.minor_status,
            findings=findings,
            queues=_nearest([place for place in places if is_listed(place.queue)]),
            closings=_closings(places),
            advice=Advice() if is_never_drawn else advice(needs, places),
            rooms=tuple(comparison.rooms(needs, [place for place in places if not place.unmet])),
            description_warnings=warnings,
            unmatched=unmatched_at(comparison, needs, places, conditions),
        )

    def _is_of_member(self, task_queue: TaskQueue, row: int) -> bool:
        # Untrusted in the index: suspended, or not a member, or both.
        is_trusted = bool(self._snapshot.columns.trusted[row])
        return is_trusted or (task_queue.owner_id, task_queue.group_id) in self._members

    def _findings(
        self,
        needs: WaitingRequirements,
        places: Sequence[ComparedPlace],
        conditions: Sequence[ConditionCount],
        *,
        task_queue: TaskQueue,
        row: int,
        queued: Sequence[QueuedJob],
        waits: HeldBackState,
    ) -> Findings:
        of_job, comparison = causes_of_job(needs), self.comparisons[task_queue.vo_id]
        may_be_drawn = not of_job and any(not place.failed or place.is_only_closed for place in places)
        fitting = [place.queue for place in places if not place.causes]
        pilots = self._pilots_at(task_queue, fitting) if fitting else PilotsThere()
        causes = [place.causes for place in places]
        found = headline(of_job=(*of_job, *waits.delays), queues=causes, no_pilots=pilots.no_pilots)
        starts: list[TimeRange | None] = []
        waiting = int(self._snapshot.jobs[row].sum())
        if found.verdict is HeadlineKind.COMPETES and pilots.running:
            of_vo = self._starts_at(comparison)
            pilots = replace(pilots, own_jobs=of_vo.own_jobs_at(task_queue, fitting))
            starts = of_vo.starts_of(queued, task_queue, queues=fitting)
            if waiting <= COUNTED_UP_TO:
                waiting = jobs_in([task_queue.pk]).get(task_queue.pk, 0)
        return Findings(
            needs=needs,
            headline=found,
            conditions=conditions,
            queues=len(places),
            standing=_rank(
                self._snapshot,
                row,
                comparison.vo,
                nowhere=self._nowhere[task_queue.vo_id],
                may_be_drawn=may_be_drawn,
            ),
            pilots=pilots,
            waiting=waiting,
            starts=starts,
            goes_elsewhere=waits.goes_elsewhere,
        )

    def _starts_at(self, comparison: Comparison) -> Starts:
        vo = comparison.vo
        if vo.pk not in self._starts:
            self._starts[vo.pk] = Starts(
                vo, self._snapshot, queues=comparison.queues, living=self._living, now=self._now
            )
        return self._starts[vo.pk]


def _closings(places: Iterable[ComparedPlace]) -> Sequence[Cause]:
    """Return the limits and throttles that hold the job back where it would fit otherwise, each once."""
    closing = (cause for place in places if place.is_only_closed for cause in place.causes)
    grounds = {Ground.THROTTLE, Ground.LIMIT, Ground.CLOSING_LIMIT}
    return tuple(dict.fromkeys(cause for cause in closing if cause.ground in grounds))


def _rank(snapshot: Snapshot, row: int, vo: VO, *, nowhere: Mask, may_be_drawn: bool) -> QueueRank:
    competing, any_segment = CompetingQueues(snapshot, row, nowhere=nowhere), bool(vo.any_segment_fraction)
    if not may_be_drawn:
        return QueueRank(longer=competing.longer.queues, any_segment=any_segment)
    priority = float(snapshot.priority[row])
    of_segment, of_all = competing.segment.priority, competing.drawn.priority
    rivals = of_all if any_segment else of_segment
    return QueueRank(
        rank=competing.rank,
        is_next=not competing.longer.queues and 0 < _NEARLY_ALL * rivals <= priority,
        share=priority / of_segment if of_segment else 0.0,
        longer=competing.longer.queues,
        any_segment=any_segment,
    )


def _nearest(places: Iterable[ComparedPlace]) -> list[ExplainedQueue]:
    """Return the queues that fit, then those with the fewest failed conditions, each in their order."""
    return [
        ExplainedQueue(
            site=place.queue.ce.site.name,
            ce=place.queue.ce.name,
            queue=place.queue.name,
            queue_id=place.queue.pk,
            offer=place.offer,
            causes=place.causes,
            platforms=place.queue.platforms,
            nodes=place.nodes,
        )
        for place in nsmallest(MOST_QUEUES, places, key=lambda place: max(len(place.failed), bool(place.causes)))
    ]
