"""Explanation of a selection of jobs: why those that wait do, by task queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import Count, Min

from matching.queries.explain.explanation import Explanation, explain_each
from taskqueues.models import QueuedJob
from wms.accounts.models import User
from wms.jobs.models import Job
from wms.jobs.queries import in_list
from wms.jobs.queries.filtering import JobFilters
from wms.jobs.queries.found_jobs import Extent, find

#: Waiting jobs of the selection that are looked up in their task queues: the newest.
MOST_JOBS: Final = 5000
#: Task queues that are explained: those with most of these jobs. Each is compared with every queue of its VO.
MOST_TASK_QUEUES: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedTaskQueue:
    """Jobs of the selection with identical requirements, and why one of them, as all, waits."""

    task_queue_id: int
    jobs: int
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


def explain_selection(filters: JobFilters, *, by: User, now: datetime) -> ExplainedSelection:
    """Return why the jobs of a filtered list wait, of those visible to *by*.

    Args:
        filters: those of the list, with the status Waiting only.
        by: the reader.
        now: time for which bans are evaluated.
    """
    newest = find(filters, Extent(at_most=MOST_JOBS + 1), by=by)
    job_ids = list(newest.values_list("pk", flat=True))
    # Uses index: taskqueues_queuedjob_pkey
    queued = QueuedJob.objects.filter(pk__among=job_ids[:MOST_JOBS]).values_list("task_queue_id")
    counts = list(queued.annotate(jobs=Count("pk"), first=Min("pk")).order_by("-jobs", "task_queue_id"))
    shown = counts[:MOST_TASK_QUEUES]
    of_first = in_list(Job.objects.visible_to(by)).with_description().in_bulk([first for *_, first in shown])
    examples = {task_queue_id: of_first[first] for task_queue_id, _, first in shown if first in of_first}
    explained = explain_each(examples, now=now)
    further = [jobs for task_queue_id, jobs, _ in counts if task_queue_id not in explained]
    return ExplainedSelection(
        jobs=sum(jobs for _, jobs, _ in counts),
        has_more=len(job_ids) > MOST_JOBS,
        task_queues=[
            ExplainedTaskQueue(task_queue_id=task_queue_id, jobs=jobs, explanation=explained[task_queue_id])
            for task_queue_id, jobs, _ in shown
            if task_queue_id in explained
        ],
        further_task_queues=len(further),
        further_jobs=sum(further),
    )
