"""Submission, with warnings about jobs that no pilot can get in the present configuration (ADR 32)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from heapq import nlargest
from typing import Any, Final

from matching.queries.explain.doubts import doubts_about_queue
from resources.queries.nodes import reported_platforms
from resources.queries.places import queues_at_hand
from taskqueues.domain.columns import Columns, QueueRow
from taskqueues.domain.definition import QueueDefinition
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from wms.accounts.models import Group, User
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services import submission
from wms.jobs.services.submission import QueuedJobs, SubmissionResult, jobs_in_words
from wms.kernel.memo import MAX_ENTRIES, CachedLookups, Memo

#: Task queues of one request that are examined; each is compared with every queue of the VO.
MOST_EXAMINED: Final = 100
#: Warnings in the answer to one request.
MAX_WARNINGS: Final = 50
#: Comparisons of a task queue that fits no queue with one queue: as many as explain makes for one job in the largest
#: VO.
MOST_COMPARED: Final = 20_000


def submit(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionResult:
    """Submit the jobs of *request* as ``wms.jobs.services.submission.submit``, and add warnings.

    Raises:
        RejectedError, ConflictError: as there.
    """
    # Before the transaction: inside a transaction the index would be read again.
    memo = index.current().memo
    return submission.submit(request, owner=owner, now=now, doubts=partial(_doubts, memo=memo, now=now))


def _doubts(queued: Sequence[QueuedJobs], owner: User, group: Group, *, memo: Memo, now: datetime) -> list[str]:
    """Return why queued jobs will not be matched; each task queue is examined once, those with most jobs first.

    If there are several task queues, the first sentence says of how many jobs that is true.
    """
    look = _Look(owner, group, memo=memo, now=now)
    doubts: list[tuple[QueuedJobs, str]] = []
    # The others are too many; a rehearsal compares the same ones.
    to_examine = nlargest(MOST_EXAMINED, queued, key=lambda each: each.jobs)
    examined_count = 0
    for queued_jobs in to_examine:
        if look.compared >= MOST_COMPARED or len(doubts) >= MAX_WARNINGS:
            break
        examined_count += 1
        if doubt := look.doubt(queued_jobs):
            doubts.append((queued_jobs, doubt))
    if len(queued) == 1:
        return [doubt for _, doubt in doubts]
    jobs = sum(each.jobs for each in queued)
    left = jobs - sum(each.jobs for each in to_examine[:examined_count])
    return [*_told_of_kinds(doubts, jobs=jobs), *_left_out(len(queued) - examined_count, jobs=left)]


def _told_of_kinds(doubts: Sequence[tuple[QueuedJobs, str]], *, jobs: int) -> Iterator[str]:
    """Yield of how many of the jobs it is true that no pilot gets them, then the reason of each kind."""
    if not doubts:
        return
    doubted = sum(each.jobs for each, _ in doubts)
    yield (
        f"In the present configuration no pilot gets {doubted:,} of the {jobs:,} waiting jobs of this submission; "
        "the reasons follow."
    )
    for queued_jobs, doubt in sorted(doubts, key=lambda each: each[0].first_id):
        yield f"{jobs_in_words(queued_jobs.first_id, queued_jobs.jobs)}: {doubt}"


def _left_out(kinds: int, *, jobs: int) -> Iterator[str]:
    if kinds:
        more = f"{kinds} more kind{'s' * (kinds != 1)} of jobs, of {jobs:,} job{'s' * (jobs != 1)} in all,"
        were = "was" if kinds == 1 else "were"
        yield f"{more} {were} not compared with the queues; explain gives the reasons for each job."


class _Look:
    """The examination of a request's task queues; what several need is read once, when needed."""

    def __init__(self, owner: User, group: Group, *, memo: Memo, now: datetime) -> None:
        self._owner, self._group, self._memo, self._now = owner, group, memo, now
        #: Comparisons with queues, of task queues that no queue fits.
        self.compared = 0

    @cached_property
    def _nodes(self) -> Mapping[int, tuple[str, ...]]:
        return reported_platforms(now=self._now)

    def doubt(self, queued: QueuedJobs) -> str:
        """Return why no pilot can get the jobs; empty: one may."""
        memo, now, definition = self._memo, self._now, queued.definition
        # A positive result is kept while the configuration stays as it is, but for a minute at most, because bans end
        # by themselves: a loop that submits one job after another is examined once.
        key = (_doubts, queued.task_queue_id, self._group.priority, now.replace(second=0, microsecond=0))
        if key in memo:
            return ""
        # The row need not be read: it holds the definition.
        task_queue = TaskQueue(
            pk=queued.task_queue_id, owner=self._owner, group=self._group, vo=self._group.vo, **_stated(definition)
        )
        row = QueueRow(task_queue_id=queued.task_queue_id, definition=definition, trusted=True)
        doubt = doubts_about_queue(
            task_queue,
            columns=Columns.of([row]),
            description=json.loads(queued.description),
            nodes=self._nodes if definition.platforms else {},
            memo=memo,
            now=now,
        )
        if doubt:
            self.compared += len(CachedLookups(memo).get(queues_at_hand, self._group.vo))
        elif len(memo) < MAX_ENTRIES:
            memo[key] = True
        return doubt


def _stated(definition: QueueDefinition) -> dict[str, Any]:
    columns = definition.columns()
    return {name: value for name, value in columns.items() if name not in {"owner_id", "group_id", "vo_id"}}
