"""Submission, with warnings of jobs that no pilot can be given as things are configured (ADR 32)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Final

from matching.queries.explain.explanation import doubts_about_queue
from resources.queries.nodes import reported_platforms
from resources.queries.places import queues_at_hand
from taskqueues.domain.columns import Columns
from taskqueues.models import TaskQueue
from taskqueues.services.index.reading import columns_of
from taskqueues.services.index.shared import index
from wms.accounts.models import User
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services import submission
from wms.jobs.services.submission import QueuedJobs, SubmissionResult, jobs_in_words
from wms.kernel.memo import MAX_ANSWERS, Memo, Remembered

#: Different task queues of one request that are looked at; each is compared with every queue of the VO.
MOST_EXAMINED: Final = 100
#: Task queues of one request that are warned of.
MOST_TOLD: Final = 50
#: Pairs of a task queue that no queue fits and a queue: as many as explain compares for one job in the largest VO.
MOST_COMPARED: Final = 20_000


def submit(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionResult:
    """Take in the jobs of *request*, as ``wms.jobs.services.submission.submit``, with warnings of where they wait.

    Raises:
        RejectedError, ConflictError: as there.
    """
    # Before the transaction: within one, the index would be read anew.
    memo = index.current().memo
    return submission.submit(request, owner=owner, now=now, doubts=partial(_doubts, memo=memo, now=now))


def _doubts(queued: Sequence[QueuedJobs], *, memo: Memo, now: datetime) -> Iterator[str]:
    """Yield why jobs that were put into task queues will not be matched; each task queue is looked at once."""
    examined = {each.task_queue_id: each for each in queued[:MOST_EXAMINED]}
    rows = TaskQueue.objects.select_related("owner", "group__vo", "vo").filter(pk__in=examined)
    task_queues: Mapping[int, TaskQueue] = {row.pk: row for row in rows}
    look = _Look(task_queues, memo=memo, now=now)
    looked_at = told = 0
    for pk, each in examined.items():
        if look.compared >= MOST_COMPARED or told >= MOST_TOLD:
            break
        looked_at += 1
        if found := look.doubt(task_queues[pk], each):
            told += 1
            yield found if len(queued) == 1 else f"{jobs_in_words(each.first_id, each.jobs)}: {found}"
    if looked_at < len(queued):
        left = len(queued) - looked_at
        yield f"{left} more kinds of jobs were not compared with the queues; explain tells of each job."


class _Look:
    """One look at the task queues of a request; what several need is read once, when it is needed."""

    def __init__(self, task_queues: Mapping[int, TaskQueue], *, memo: Memo, now: datetime) -> None:
        self._task_queues, self._memo, self._now = task_queues, memo, now
        #: With queues that none of the jobs fits.
        self.compared = 0

    @cached_property
    def _columns(self) -> Mapping[int, Columns]:
        return columns_of(self._task_queues)

    @cached_property
    def _nodes(self) -> Mapping[int, tuple[str, ...]]:
        return reported_platforms(now=self._now)

    def doubt(self, task_queue: TaskQueue, queued: QueuedJobs) -> str:
        """Return why no pilot can be given the jobs; empty: one may."""
        memo, now = self._memo, self._now
        # That a pilot may be given the jobs is remembered while the configuration stays as it is, for a minute at most,
        # for bans end by themselves. A loop that submits one job after the other asks only once.
        key = (_doubts, bytes(task_queue.signature), task_queue.group.priority, now.replace(second=0, microsecond=0))
        if key in memo:
            return ""
        found = doubts_about_queue(
            task_queue,
            columns=self._columns[task_queue.pk],
            description=json.loads(queued.description),
            nodes=self._nodes if task_queue.platforms else {},
            memo=memo,
            now=now,
        )
        if found:
            self.compared += len(Remembered(memo).ask(queues_at_hand, task_queue.group.vo))
        elif len(memo) < MAX_ANSWERS:
            memo[key] = True
        return found
