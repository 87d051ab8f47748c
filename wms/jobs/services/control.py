"""Actions of users on submitted jobs: kill, reschedule, delete, hold and release, for one job or many."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from django.db import transaction

from taskqueues.services import queueing
from wms.accounts.models import User
from wms.accounts.services import take_changes
from wms.jobs.domain.lifecycle import LEASED, Action, JobStatus, sources_of
from wms.jobs.models import Job
from wms.jobs.services import enqueueing, rescheduling, transitions
from wms.jobs.services.transitions import Recorded
from wms.jobs.sql.lists import ids_of
from wms.kernel.db import transaction_required
from wms.kernel.errors import NotFoundError, WmsError

#: Actions that a job allows any number of times; of the others it allows few, all of which count with the job (ADR 86).
_ENDLESS: Final = frozenset({Action.HOLD, Action.RELEASE})
#: Minor status of a leased job that is to be killed; its pilot gets the command with its next heartbeat.
MARKED_FOR_TERMINATION: Final = "Marked for termination"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """The result of an action on several jobs."""

    done: frozenset[int]
    #: {job id: error}.
    refused: Mapping[int, WmsError]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cause:
    """User, time and reason of an action."""

    by: User
    now: datetime
    reason: str


@transaction.atomic(durable=True)
def apply(
    action: Action, job_ids: Collection[int], *, by: User, now: datetime, reason: str = "", are_seen: bool = False
) -> BulkOutcome:
    """Perform *action* on those of the jobs that *by* may change and whose status allows it; the others do not change.

    Args:
        action: the action.
        job_ids: at most some thousands, because their rows stay locked until the end.
        by: any user who may see the jobs; with a token of scope ``submit`` only their owner.
        now: the time of the change.
        reason: for hold and kill; becomes the minor status. At most 255 characters.
        are_seen: whether the jobs were just found among those that *by* sees.
    """
    requested = frozenset(job_ids)
    changeable = requested
    if by.acts_on_own_jobs_only or not are_seen:
        changeable = ids_of(Job.objects.changeable_by(by).filter(pk__among=requested))
    outcome = _STEPS[action](changeable, _Cause(by=by, now=now, reason=reason))
    strangers = {job_id: no_such_job(job_id, by=by) for job_id in requested - outcome.done - outcome.refused.keys()}
    return BulkOutcome(done=outcome.done, refused={**outcome.refused, **strangers})


def no_such_job(job_id: int, *, by: User) -> NotFoundError:
    """Return the error for a job that does not exist, or that *by* may not change."""
    if by.acts_on_own_jobs_only:
        return NotFoundError(f'You have no job {job_id}; a token of scope "submit" acts on your own jobs only.')
    return NotFoundError(f"There is no job {job_id}; an ended job may have been removed.")


def take_rows_of(action: Action, jobs: int, *, by: User) -> None:
    """Take the rows that *action* adds to the histories of jobs out of what *by* may change in this minute.

    Raises:
        TooManyChangesError, RateExceededError: they are too many; the action must not begin.
    """
    if action in _ENDLESS:
        take_changes(jobs, by=by)


def apply_to_one(action: Action, job_id: int, *, by: User, now: datetime, reason: str = "") -> None:
    """Perform *action* on one job; the arguments are those of ``apply``.

    Raises:
        RateExceededError: of this minute nothing is left.
        NotFoundError: there is no such job that *by* may change.
        IllegalTransitionError: its status forbids it.
        RescheduleLimitError: it was rescheduled too often.
    """
    take_rows_of(action, 1, by=by)
    for error in apply(action, [job_id], by=by, now=now, reason=reason).refused.values():
        raise error


@transaction_required
def out_of_queues(job_ids: Collection[int], change: Callable[[], Recorded]) -> Recorded:
    """Withdraw jobs from their queues and *change* them, so that no job stays in a queue without waiting.

    Rows of queues are locked before rows of jobs, as by the claim. So a job may enter a queue between the two steps
    (released, or returned by a pilot); then everything since the withdrawal is rolled back and repeated.

    Args:
        job_ids: jobs that *change* may touch.
        change: locks the jobs and moves those that may move; it may be called repeatedly.
    """
    while True:
        with transaction.atomic():
            withdrawn = queueing.withdraw(job_ids)
            recorded = change()
            if all(job_id in withdrawn for job_id, before in recorded.moved.items() if before is JobStatus.WAITING):
                return recorded
            transaction.set_rollback(True)


def _kill(job_ids: frozenset[int], cause: _Cause) -> BulkOutcome:
    # A job is Rescheduled only while its lease is open, and its pilot has got the command already.
    marked, source, now = LEASED | {JobStatus.RESCHEDULED}, cause.by.username, cause.now
    minor = cause.reason or f"Killed by {source}"

    def change() -> Recorded:
        record = partial(transitions.record, status=JobStatus.KILLED, source=source, now=now)
        # Waiting jobs first: mostly these are all.
        others = record(job_ids, minor=minor, only_from=sources_of(JobStatus.KILLED) - marked)
        held = record(others.refused, minor=MARKED_FOR_TERMINATION, only_from=marked)
        return Recorded(moved={**others.moved, **held.moved}, refused=held.refused)

    killed = out_of_queues(job_ids, change)
    rescheduling.order_to_kill(rescheduling.held(killed), now=now)
    return _outcome(killed, JobStatus.KILLED)


def _delete(job_ids: frozenset[int], cause: _Cause) -> BulkOutcome:
    return _leave_queues(job_ids, status=JobStatus.DELETED, minor=f"Deleted by {cause.by.username}", cause=cause)


def _hold(job_ids: frozenset[int], cause: _Cause) -> BulkOutcome:
    minor = cause.reason or f"Held by {cause.by.username}"
    held_back = queueing.held_back(job_ids)
    outcome = _leave_queues(job_ids, status=JobStatus.HELD, minor=minor, cause=cause)
    enqueueing.carry_held_back({job_id: held_back[job_id] for job_id in outcome.done & held_back.keys()})
    return outcome


def _release(job_ids: frozenset[int], cause: _Cause) -> BulkOutcome:
    return release(job_ids, minor=f"Released by {cause.by.username}", source=cause.by.username, now=cause.now)


@transaction_required
def release(job_ids: Collection[int], *, minor: str, source: str, now: datetime) -> BulkOutcome:
    """Let held jobs wait again; *minor* and *source* are those of ``transitions.record``."""
    released = transitions.record(
        job_ids,
        status=JobStatus.WAITING,
        minor=minor,
        source=source,
        now=now,
        # Rescheduled jobs may become Waiting too, but only after their leases have ended.
        only_from={JobStatus.HELD},
    )
    jobs = list(Job.objects.with_description().filter(pk__among=released.moved.keys()))
    enqueueing.put_back_in_queues(jobs, now=now, held_back=enqueueing.carried_by(jobs))
    refused = {
        job_id: transitions.IllegalTransitionError(f"Job {job_id} is {status}; only a Held job can be released.")
        for job_id, status in released.refused.items()
    }
    return BulkOutcome(done=frozenset(released.moved), refused=refused)


def _reschedule(job_ids: frozenset[int], cause: _Cause) -> BulkOutcome:
    done, refused = rescheduling.reschedule(job_ids, source=cause.by.username, now=cause.now)
    return BulkOutcome(done=done, refused=refused)


def _leave_queues(job_ids: frozenset[int], *, status: JobStatus, minor: str, cause: _Cause) -> BulkOutcome:
    record = partial(transitions.record, status=status, minor=minor, source=cause.by.username, now=cause.now)
    return _outcome(out_of_queues(job_ids, partial(record, job_ids)), status)


def _outcome(recorded: Recorded, target: JobStatus) -> BulkOutcome:
    return BulkOutcome(done=frozenset(recorded.moved), refused=recorded.errors(target))


_STEPS: Final[Mapping[Action, Callable[[frozenset[int], _Cause], BulkOutcome]]] = MappingProxyType(
    {
        Action.KILL: _kill,
        Action.RESCHEDULE: _reschedule,
        Action.DELETE: _delete,
        Action.HOLD: _hold,
        Action.RELEASE: _release,
    }
)
