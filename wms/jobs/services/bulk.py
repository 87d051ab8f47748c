"""The same action on many jobs: what can be done is done, what cannot is told, some at a time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from wms.accounts.models import User
from wms.jobs.domain.actions import Action
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.kernel.errors import RejectedError

#: Jobs of one transaction: nobody waits longer than about a tenth of a second for the rows that it locks.
AT_ONCE: Final = 2500
#: Jobs of one request; it has to be answered before its client gives up.
MAX_JOBS: Final = 100_000


class TooManyJobsError(RejectedError):
    """The filter finds more jobs than one request may act on."""

    code = "too_many_jobs"


class EmptyFilterError(RejectedError):
    """The filter would find every job that the caller can see."""

    code = "empty_filter"


class BulkRefusal(NamedTuple):
    """Why one job stayed as it is."""

    id: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """What became of the jobs of one request."""

    done: int
    #: By job id.
    refused: Sequence[BulkRefusal]


def act_on(action: Action, job_ids: Collection[int], *, by: User, now: datetime, reason: str = "") -> BulkResult:
    """Do *action* to each of the jobs that *by* may see and whose state allows it.

    Each part of AT_ONCE jobs is a transaction of its own: when the server stops in between, what was done stays done,
    and asking again does the rest.

    Args:
        action: what to do.
        job_ids: in any order; what *by* may not see is refused as ``not_found``.
        by: who wants it.
        now: the time of the change.
        reason: why, for hold and kill.
    """
    done = 0
    refused: list[BulkRefusal] = []
    ordered = sorted(set(job_ids))
    for start in range(0, len(ordered), AT_ONCE):
        outcome = control.apply(action, ordered[start : start + AT_ONCE], by=by, now=now, reason=reason)
        done += len(outcome.done)
        refused += [BulkRefusal(job_id, outcome.refused[job_id].code) for job_id in sorted(outcome.refused)]
    return BulkResult(done=done, refused=refused)


def act_on_found(action: Action, filters: JobFilterSet, *, by: User, now: datetime, reason: str = "") -> BulkResult:
    """Do *action* to each of the jobs that *by* may see and *filters* finds at this moment; otherwise as ``act_on``.

    Raises:
        EmptyFilterError: the filter does not narrow.
        TooManyJobsError: it finds more than MAX_JOBS; nothing has changed.
    """
    if not any(filters.form.cleaned_data.values()):
        sentence = "Name at least one criterion, such as owner, status or job_group_id: all jobs are never meant."
        raise EmptyFilterError(sentence, errors={"filter": [sentence]})
    found = list(filters.filter_queryset(Job.objects.visible_to(by)).values_list("pk", flat=True)[: MAX_JOBS + 1])
    if len(found) > MAX_JOBS:
        sentence = f"The filter finds more than {MAX_JOBS} jobs; narrow it, for example by submitted_before."
        raise TooManyJobsError(sentence, errors={"filter": [sentence]})
    return act_on(action, found, by=by, now=now, reason=reason)
