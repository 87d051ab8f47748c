"""Presentation of the explanation why a job, or a selection of jobs, waits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse

from matching.domain.findings import Explanation, Room
from matching.domain.sentences import ConditionText, ExplanationText, worded
from matching.queries.explain.explanation import MOST_JOBS, MOST_QUEUES, ExplainedSelection, ExplainedTaskQueue
from matching.queries.task_queues import TaskQueueStanding
from wms.kernel.names import counted
from wms.portal.presentation.task_queues import StandingView, standing_view
from wms.portal.search import query_of

#: Conditions that end by themselves: their texts are among limits and throttles, or those of queues.
_CLOSINGS = frozenset({"downtime", "throttle", "limit"})


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyView:
    """The explanation why a job waits."""

    text: ExplanationText
    #: Without the one in the summary.
    warnings: Sequence[str]
    #: Conditions that exclude queues, most first; and the others.
    hurdles: Sequence[ConditionText]
    passed: Sequence[ConditionText]
    rooms: Sequence[Room]
    #: Queues that are listed, such as "the first 200"; empty: all are.
    queues_shown: str
    #: Site to whose queues the rows are limited; empty: none.
    site: str
    #: Why the wanted site is not one; empty: it is, or none is wanted.
    site_error: str
    standing: StandingView | None
    #: Address of the task queue; empty: the job is in none.
    task_queue_url: str


def why_view(
    explained: Explanation,
    *,
    reader: str,
    standing: TaskQueueStanding | None = None,
    site: str = "",
    site_error: str = "",
) -> WhyView:
    """Return the explanation for the page of a waiting job.

    Args:
        explained: the explanation.
        reader: user name.
        standing: of its task queue; None: not known.
        site: to which the queues were limited; empty: all.
        site_error: why the wanted site is none.
    """
    text = worded(explained, reader=reader)
    conditions = [each for each in text.conditions if each.name not in _CLOSINGS or each.failed_queues]
    return WhyView(
        text=text,
        warnings=[warning for warning in text.warnings if warning != text.summary],
        hurdles=sorted((each for each in conditions if each.failed_queues), key=lambda each: -each.failed_queues),
        passed=[each for each in conditions if not each.failed_queues],
        rooms=explained.rooms,
        queues_shown=f"the first {MOST_QUEUES}" if len(text.queues) == MOST_QUEUES else "",
        site=site,
        site_error=site_error,
        standing=None if standing is None else standing_view(standing),
        task_queue_url=_url_of(explained.task_queue_id),
    )


def _url_of(task_queue_id: int | None) -> str:
    return "" if task_queue_id is None else reverse("portal:task-queue", args=[task_queue_id])


# ---- a selection of jobs ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedQueue:
    """The waiting jobs of a selection in one task queue."""

    task_queue_id: int
    #: Such as "320 jobs".
    jobs: str
    url: str
    #: Whose they are, and in which group.
    owner: str
    group: str
    text: ExplanationText
    #: Whether no pilot can get them as things are.
    runs_nowhere: bool
    example_id: int
    #: Address of the list of these jobs.
    jobs_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionView:
    """The explanation why the jobs of a selection wait."""

    #: The number of jobs and task queues, in a sentence; empty: no job waits.
    summary: str
    queues: Sequence[SelectedQueue]
    #: What is left out, in a sentence; empty: nothing.
    left_out: str


def selection_view(explained: ExplainedSelection, *, reader: str, words: Mapping[str, str]) -> SelectionView:
    """Return the explanation of a selection.

    Args:
        explained: the explanation.
        reader: user name.
        words: of the query that selects the jobs, by parameter.
    """
    in_all = len(explained.task_queues) + explained.further_task_queues
    jobs = f"the newest {MOST_JOBS:,}" if explained.has_more else f"{explained.jobs:,}"
    verb = "waits" if explained.jobs == 1 else "wait"
    summary = f"Of these jobs {jobs} {verb}, in {counted(in_all, 'task queue')}." if explained.jobs else ""
    if explained.has_more:
        summary = f"More than {MOST_JOBS:,} of these jobs wait; {jobs} are in {counted(in_all, 'task queue')}."
    further = counted(explained.further_task_queues, "task queue")
    return SelectionView(
        summary=summary,
        queues=[_selected(each, words, reader=reader) for each in explained.task_queues],
        left_out=f"Further {explained.further_jobs:,} jobs, in {further}, are not explained."
        if explained.further_task_queues
        else "",
    )


def _selected(each: ExplainedTaskQueue, words: Mapping[str, str], *, reader: str) -> SelectedQueue:
    job = each.example
    # Only Waiting jobs are in a task queue, whatever statuses the words name. All of them have one owner, who may be
    # another than the reader if the words name a submission.
    only = {"task_queue": each.task_queue_id, "status": "", "owner": words.get("owner", job.owner.username)}
    return SelectedQueue(
        task_queue_id=each.task_queue_id,
        jobs=counted(each.jobs, "job"),
        url=_url_of(each.task_queue_id),
        owner=job.owner.username,
        group=job.group.name,
        text=worded(each.explanation, reader=reader),
        runs_nowhere=each.explanation.unmatched is not None,
        example_id=job.pk,
        jobs_url=f"{reverse('portal:jobs')}?{query_of({**words, **only})}",
    )
