"""Presentation of task queues: their priorities term by term, what comes before them, and their requirements."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.urls import reverse

from matching.domain.sentences import longer_jobs_first
from matching.queries.task_queues import PriorityTerms, QueueSum, TaskQueuePage, TaskQueueStanding
from taskqueues.models import TaskQueue
from wms.kernel.names import counted, in_percent
from wms.kernel.time_texts import duration
from wms.portal.presentation.statuses import Fact, in_words
from wms.portal.search import EVERYBODY, query_of
from wms.wire.amounts import AMOUNTS

#: Requirements that are lists, and their labels.
_LISTS: Final = (
    ("sites", "Sites"),
    ("banned_sites", "Banned sites"),
    ("grid_ces", "Computing elements"),
    ("grid_middlewares", "Grid middlewares"),
    ("platforms", "Platforms"),
    ("tags", "Tags"),
    ("software", "Software"),
    ("pilot_types", "Pilot types"),
    ("submit_pools", "Submit pools"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One factor of a priority."""

    label: str
    value: str
    explanation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingView:
    """The place of a task queue among the others of its VO."""

    #: Such as "3rd"; a dash: it is never drawn.
    rank: str
    share: str
    terms: Sequence[Term]
    #: What comes before it, in sentences.
    before: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueRow:
    """One task queue in a list."""

    id: int
    url: str
    jobs: str
    #: Address of the list of its jobs.
    jobs_url: str
    owner: str
    group: str
    cpu_segment: str
    requires: str
    rank: str
    share_of_group: str
    correction: str
    part: str
    priority: str
    share: str
    before: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueList:
    """One page of task queues."""

    rows: Sequence[TaskQueueRow]
    summary: str
    #: Numbers of the adjacent pages; 0: none.
    previous: int
    next: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQueueView:
    """One task queue on its own page."""

    id: int
    owner: str
    group: str
    vo: str
    jobs: str
    created_at: datetime
    requirements: Sequence[Fact]
    standing: StandingView
    #: Address of the list of its jobs.
    jobs_url: str
    #: Jobs that are listed.
    job_ids: Sequence[int]
    #: Whether there are more.
    has_more_jobs: bool


def task_queue_list(page: TaskQueuePage) -> TaskQueueList:
    """Return a page of task queues."""
    pages = f", page {page.number} of {page.pages}" if page.pages > 1 else ""
    return TaskQueueList(
        rows=[_row(standing) for standing in page.standings],
        summary=f"{page.task_queues:,} {'task queue' if page.task_queues == 1 else 'task queues'}{pages}",
        previous=page.number - 1,
        next=page.number + 1 if page.number < page.pages else 0,
    )


def task_queue_view(standing: TaskQueueStanding, *, job_ids: Sequence[int]) -> TaskQueueView:
    """Return the page of a task queue, with its newest jobs."""
    task_queue = standing.task_queue
    return TaskQueueView(
        id=task_queue.pk,
        owner=task_queue.owner.username,
        group=task_queue.group.name,
        vo=task_queue.vo.name,
        jobs=_jobs(standing),
        created_at=task_queue.created_at,
        requirements=_requirements(task_queue),
        standing=standing_view(standing),
        jobs_url=_jobs_url(task_queue),
        job_ids=job_ids,
        has_more_jobs=standing.jobs > len(job_ids),
    )


def standing_view(standing: TaskQueueStanding) -> StandingView:
    """Return the place of a task queue, with its priority term by term."""
    return StandingView(rank=_rank(standing), share=_share(standing), terms=_terms(standing), before=_before(standing))


def _rank(standing: TaskQueueStanding) -> str:
    return "–" if standing.rank is None else f"{standing.rank:,}"


def _share(standing: TaskQueueStanding) -> str:
    return "0 %" if standing.runs_nowhere else in_percent(standing.share_of_segment)


def number_in_words(value: float) -> str:
    """Return a share, factor or priority with four digits."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def _row(standing: TaskQueueStanding) -> TaskQueueRow:
    task_queue, terms = standing.task_queue, standing.terms
    return TaskQueueRow(
        id=task_queue.pk,
        url=reverse("portal:task-queue", args=[task_queue.pk]),
        jobs=_jobs(standing),
        jobs_url=_jobs_url(task_queue),
        owner=task_queue.owner.username,
        group=task_queue.group.name,
        cpu_segment=duration(task_queue.cpu_time_s),
        requires=", ".join(f"{fact.label}: {fact.value}" for fact in _requirements(task_queue)[2:]),
        rank=_rank(standing),
        share_of_group=number_in_words(terms.share),
        correction=_factor(terms.correction),
        part=number_in_words(terms.part / (terms.owners or 1)),
        priority=number_in_words(terms.priority),
        share=_share(standing),
        before="no queue can run its jobs"
        if standing.runs_nowhere
        else "; ".join(filter(None, [_of_longer(standing.longer), _of_segment(standing.higher)])) or "nothing",
    )


def _jobs_url(task_queue: TaskQueue) -> str:
    return f"{reverse('portal:jobs')}?{query_of(task_queue=task_queue.pk, owner=EVERYBODY)}"


def _jobs(standing: TaskQueueStanding) -> str:
    return f"{'about ' if standing.is_estimate else ''}{standing.jobs:,}"


def _of_longer(longer: QueueSum) -> str:
    return f"{_in_sum(longer)} of longer jobs" if longer.queues else ""


def _of_segment(higher: QueueSum) -> str:
    return f"{_in_sum(higher)} of its segment" if higher.queues else ""


def _in_sum(queues: QueueSum) -> str:
    jobs = f"{queues.jobs:,} {'job' if queues.jobs == 1 else 'jobs'}"
    return f"{counted(queues.queues, 'task queue')} ({jobs}, priority {number_in_words(queues.priority)})"


def _before(standing: TaskQueueStanding) -> list[str]:
    vo, longer, higher, segment = standing.task_queue.vo, standing.longer, standing.higher, standing.segment
    if standing.runs_nowhere:
        return ["It is not drawn, because no queue can run its jobs."]
    if standing.rank is None:
        return ["It is never drawn, because its priority is 0."]
    sentences = []
    if longer.queues:
        mostly = bool(vo.any_segment_fraction)
        sentences.append(f"{longer_jobs_first(_in_sum(longer), longer.queues, mostly=mostly)}.")
    if higher.queues:
        have = "has" if higher.queues == 1 else "have"
        sentences.append(f"In its CPU segment {_in_sum(higher)} {have} a higher priority.")
    others = segment.queues - 1
    sentences.append(
        f"Pilots draw among {counted(segment.queues, 'task queue')} of its CPU segment in proportion to their "
        f"priorities, in sum {number_in_words(segment.priority)}."
        if others > 0
        else "No other task queue is in its CPU segment."
    )
    return sentences


def _terms(standing: TaskQueueStanding) -> list[Term]:
    terms, group = standing.terms, standing.task_queue.group
    return [
        Term(label="Share", value=number_in_words(terms.share), explanation=f"of the group {group}, as configured"),
        Term(label="× correction", value=_factor(terms.correction), explanation=_of_correction(terms, standing)),
        Term(
            label="× part of the owner",
            value="1" if terms.owners is None else f"1 / {terms.owners}",
            explanation=f"{group} shares its jobs: the share is not divided over owners"
            if terms.owners is None
            else f"the share is divided equally over {counted(terms.owners, 'owner')} with waiting jobs",
        ),
        Term(
            label="× part of this task queue",
            value=number_in_words(terms.part),
            explanation="of all waiting jobs of the "
            + ("group" if terms.owners is None else "owner in this group")
            + ", weighted by user priority",
        ),
        Term(label="= priority", value=number_in_words(terms.priority), explanation="as it was last calculated"),
    ]


def _factor(correction: float | None) -> str:
    return "1" if correction is None else number_in_words(correction)


def _of_correction(terms: PriorityTerms, standing: TaskQueueStanding) -> str:
    vo = standing.task_queue.vo
    if terms.correction is None:
        return f"{vo} does not correct shares by their history"
    return "expected over used share of the last days, limited to 1/3 to 3 and normalized"


def _requirements(task_queue: TaskQueue) -> list[Fact]:
    """Return what the jobs require, the CPU segment and the type first."""
    facts = [
        Fact(label="CPU segment", value=duration(task_queue.cpu_time_s)),
        Fact(label="Job type", value=task_queue.job_type),
    ]
    for amount in AMOUNTS:
        value = getattr(task_queue, amount.name)
        if value > amount.least:
            text = duration(value) if amount.unit == "s" else f"{value:,} {amount.unit}".rstrip()
            facts.append(Fact(label=amount.label, value=text))
    if task_queue.setup != task_queue.vo.setup:
        facts.append(Fact(label="Setup", value=task_queue.setup))
    if task_queue.container:
        facts.append(Fact(label="Container", value="required"))
    facts += [
        Fact(label=label, value=in_words(names)) for name, label in _LISTS if (names := getattr(task_queue, name))
    ]
    return facts
