"""Submission, with warnings about jobs that no pilot can get in the present configuration (ADR 32)."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from heapq import nlargest
from typing import Final

from django.db import transaction

from matching.domain.sentences import waiting
from matching.queries.explain.comparison import Comparison
from matching.queries.explain.unmatched import unmatched
from matching.services.rehearsal import MOST_EXAMINED, with_canaries_at_sites
from taskqueues.services.index.shared import index
from wms.accounts.models import Group, User
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.services import submission, workflows
from wms.jobs.services.submission import QueuedJobs, SubmissionResult, jobs_in_words
from wms.kernel.errors import WmsError
from wms.kernel.life import LifeEvent, tell
from wms.kernel.memo import Memo, RecentlyUsed, state_of

#: Warnings in the answer to one request.
MAX_WARNINGS: Final = 50
#: Comparisons of a task queue that fits no queue with one queue: as many as explain makes for one job in the largest
#: VO.
MOST_COMPARED: Final = 20_000
#: Task queues whose jobs a pilot may get, by configuration, and for a minute, because bans end by themselves: a loop
#: that submits one job after another is examined once.
_matched: Final[RecentlyUsed[tuple[int, float, datetime, object], bool]] = RecentlyUsed(most=5_000, unused_s=60)


def submit(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionResult:
    """Submit the jobs of *request* as ``wms.jobs.services.submission.accept``, and add warnings.

    Jobs of dirac-jobexec get a script in the place of their jobDescription.xml (ADR 80).

    Raises:
        RejectedError, ConflictError: as there, and as ``workflows.with_scripts``.
    """
    # Before the transaction: inside a transaction the index would be read again.
    memo = index.current().memo
    try:
        request = workflows.with_scripts(request, owner=owner, now=now)
        if request.canary_at_each_site:
            request = with_canaries_at_sites(request, owner=owner, now=now)
        with transaction.atomic(durable=True):
            result = submission.accept(request, owner=owner, now=now)
            warnings = _warnings(result.queued, owner, result.group, memo=memo, now=now) if result.queued else []
            return submission.add_warnings(request, result, warnings)
    except WmsError as error:
        tell(LifeEvent.JOB_REFUSED, user=owner.username, group=request.group, code=error.code, reason=error.detail)
        raise


def _warnings(queued: Sequence[QueuedJobs], owner: User, group: Group, *, memo: Memo, now: datetime) -> list[str]:
    """Return why queued jobs will not be matched; each task queue is examined once, those with most jobs first.

    If there are several task queues, the first sentence says of how many jobs that is true.
    """
    # The others are too many; a rehearsal compares the same ones.
    to_examine = nlargest(MOST_EXAMINED, queued, key=lambda each: each.jobs)
    pools = {pool for each in to_examine for pool in each.definition.submit_pools}
    comparison = Comparison(group.vo, submit_pools=pools, memo=memo, now=now)
    reasons: list[tuple[QueuedJobs, str]] = []
    examined_count = 0
    for queued_jobs in to_examine:
        # Those that no queue fits are compared with all queues.
        if len(reasons) >= MAX_WARNINGS or (reasons and len(reasons) * len(comparison.queues) >= MOST_COMPARED):
            break
        examined_count += 1
        if reason := _why_unmatched(queued_jobs, owner, group, comparison=comparison):
            reasons.append((queued_jobs, reason))
    if len(queued) == 1:
        return [reason for _, reason in reasons]
    jobs = sum(each.jobs for each in queued)
    left = jobs - sum(each.jobs for each in to_examine[:examined_count])
    return [*_of_kinds(reasons, jobs=jobs), *_left_out(len(queued) - examined_count, jobs=left)]


def _why_unmatched(queued: QueuedJobs, owner: User, group: Group, *, comparison: Comparison) -> str:
    """Return why no pilot can get the jobs; empty: one may."""
    definition, minute = queued.definition, comparison.now.replace(second=0, microsecond=0)
    key = (queued.task_queue_id, group.priority, minute, state_of(comparison.memo))
    if _matched.get(key):
        return ""
    description = json.loads(queued.description)
    needs = comparison.needs(definition, description, owner=owner, group=group, task_queue_id=queued.task_queue_id)
    found = unmatched(comparison, needs)
    if found is not None:
        return waiting(found)
    _matched.keep(key, value=True)
    return ""


def _of_kinds(reasons: Sequence[tuple[QueuedJobs, str]], *, jobs: int) -> Iterator[str]:
    """Yield of how many of the jobs it is true that no pilot gets them, then the reason of each kind."""
    if not reasons:
        return
    unmatched_jobs = sum(each.jobs for each, _ in reasons)
    yield (
        f"In the present configuration no pilot gets {unmatched_jobs:,} of the {jobs:,} waiting jobs of this "
        "submission; the reasons follow."
    )
    for queued_jobs, reason in sorted(reasons, key=lambda each: each[0].first_id):
        yield f"{jobs_in_words(queued_jobs.first_id, queued_jobs.jobs)}: {reason}"


def _left_out(kinds: int, *, jobs: int) -> Iterator[str]:
    if kinds:
        more = f"{kinds} more kind{'s' * (kinds != 1)} of jobs, of {jobs:,} job{'s' * (jobs != 1)} in all,"
        were = "was" if kinds == 1 else "were"
        yield f"{more} {were} not compared with the queues; explain gives the reasons for each job."
