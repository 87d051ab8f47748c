"""Actions on many jobs, in portions; jobs that cannot be changed are reported."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries.filtering import narrowing_fields
from wms.jobs.queries.found_jobs import Extent, find
from wms.jobs.services import control
from wms.jobs.sql.lists import ids_of
from wms.kernel.errors import RejectedError

#: Jobs of one transaction, which locks their rows for about a tenth of a second.
AT_ONCE: Final = 5000
#: Jobs of one request, which must be answered before its client's timeout.
MAX_JOBS: Final = 100_000


class TooManyJobsError(RejectedError):
    """The filter matches more jobs than one request may act on."""

    code = "too_many_jobs"


class EmptyFilterError(RejectedError):
    """The filter would match every job that the caller can see."""

    code = "empty_filter"


class BulkRefusal(NamedTuple):
    """One job that was not changed, and the code of the error."""

    id: int
    code: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkResult:
    """The result of a bulk action."""

    done: int
    #: By job id.
    refused: Sequence[BulkRefusal]


def act_on(
    action: Action, job_ids: Collection[int], *, by: User, now: datetime, reason: str = "", are_seen: bool = False
) -> BulkResult:
    """Perform *action* on those of the jobs that *by* may see and whose status allows it.

    Each portion of AT_ONCE jobs is one transaction: if the server stops in between, earlier portions stay done, and a
    repeated request does the rest.

    Args:
        action: the action.
        job_ids: in any order; jobs that *by* may not see are refused as ``not_found``.
        by: who requests it.
        now: the time of the change.
        reason: for hold and kill.
        are_seen: whether the jobs were just found among those that *by* sees.

    Raises:
        TooManyChangesError, RateExceededError: the action may not add so many rows now; nothing has changed.
    """
    done = 0
    refused: list[BulkRefusal] = []
    ordered = sorted(set(job_ids))
    control.take_rows_of(action, len(ordered), by=by)
    for start in range(0, len(ordered), AT_ONCE):
        portion = ordered[start : start + AT_ONCE]
        outcome = control.apply(action, portion, by=by, now=now, reason=reason, are_seen=are_seen)
        done += len(outcome.done)
        refused += [BulkRefusal(job_id, outcome.refused[job_id].code) for job_id in sorted(outcome.refused)]
    return BulkResult(done=done, refused=refused)


def refuse_empty(filters: JobFilterSet) -> None:
    """Refuse filters that would match every job.

    Raises:
        EmptyFilterError: they have no criterion.
    """
    if not any(narrowing_fields(filters)):
        sentence = "Name at least one criterion, such as owner, status or job_group_id; all jobs are not accepted."
        raise EmptyFilterError(sentence, errors={"filter": [sentence]})


def act_on_found(action: Action, filters: JobFilterSet, *, by: User, now: datetime, reason: str = "") -> BulkResult:
    """Perform *action* on the jobs that *by* may see and *filters* matches now; otherwise as ``act_on``.

    Raises:
        EmptyFilterError: the filter has no criterion.
        TooManyJobsError: it matches more than MAX_JOBS; nothing has changed.
    """
    refuse_empty(filters)
    job_ids = ids_of(find(filters, Extent(at_most=MAX_JOBS + 1), by=by))
    if len(job_ids) > MAX_JOBS:
        sentence = f"The filter matches more than {MAX_JOBS} jobs; narrow it, for example by submitted_before."
        raise TooManyJobsError(sentence, errors={"filter": [sentence]})
    return act_on(action, job_ids, by=by, now=now, reason=reason, are_seen=True)
