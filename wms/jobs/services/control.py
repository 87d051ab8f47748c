"""What people do to jobs that were submitted: kill, reschedule, delete, hold and release, one or many (DESIGN §3.1)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Final

from django.db import transaction

from taskqueues.services import queueing
from wms.accounts.models import User
from wms.jobs.domain.actions import Action
from wms.jobs.domain.lifecycle import LEASED, JobStatus, sources_of
from wms.jobs.models import Job
from wms.jobs.services import enqueueing, rescheduling, transitions
from wms.jobs.services.transitions import Recorded
from wms.kernel.db import transaction_required
from wms.kernel.errors import NotFoundError, WmsError

#: Given to a job that a pilot holds; the pilot hears of it with its next heartbeat (DESIGN §3.1).
MARKED_FOR_TERMINATION: Final = "Marked for termination"


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """What became of an action on several jobs."""

    done: frozenset[int]
    #: {job id: why not}.
    refused: Mapping[int, WmsError]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wish:
    """Who wants it, when and why."""

    by: User
    now: datetime
    reason: str


@transaction.atomic(durable=True)
def apply(action: Action, job_ids: Collection[int], *, by: User, now: datetime, reason: str = "") -> BulkOutcome:
    """Do *action* to those of the jobs that *by* may change and whose state allows it; the others stay as they are.

    Args:
        action: what to do.
        job_ids: at most some thousands: their rows are locked until all are done.
        by: whoever may see a job may do this to it; by a token of scope ``submit`` only its owner.
        now: the time of the change.
        reason: why, for hold and kill; becomes the minor status. At most 255 characters.
    """
    asked = frozenset(job_ids)
    changeable = frozenset(Job.objects.changeable_by(by).filter(pk__among=asked).values_list("pk", flat=True))
    outcome = _STEPS[action](changeable, _Wish(by=by, now=now, reason=reason))
    strangers = {job_id: no_such_job(job_id, by=by) for job_id in asked - changeable}
    return BulkOutcome(done=outcome.done, refused={**outcome.refused, **strangers})


def no_such_job(job_id: int, *, by: User) -> NotFoundError:
    """Return the refusal of a job that *by* may not change, or that does not exist."""
    if by.acts_on_own_jobs_only:
        return NotFoundError(f'You have no job {job_id}; a token of scope "submit" acts on your own jobs only.')
    return NotFoundError(f"There is no job {job_id}.")


def apply_to_one(action: Action, job_id: int, *, by: User, now: datetime, reason: str = "") -> None:
    """Do *action* to one job; the arguments are those of ``apply``.

    Raises:
        NotFoundError: there is no such job, or not for *by*.
        IllegalTransitionError: its status forbids it.
        RescheduleLimitError: it was rescheduled too often.
    """
    for error in apply(action, [job_id], by=by, now=now, reason=reason).refused.values():
        raise error


@transaction_required
def out_of_queues(job_ids: Collection[int], change: Callable[[], Recorded]) -> Recorded:
    """Withdraw jobs from their queues and *change* them, so that none stays in a queue while it does not wait.

    Rows of queues are locked before rows of jobs, as the claim does it. So a job can come into a queue between the
    two (released, or let go by a pilot); then everything since the withdrawal is undone, and done again.

    Args:
        job_ids: those that *change* may touch.
        change: locks the jobs and moves what may be moved; it may be called more than once.
    """
    while True:
        with transaction.atomic():
            withdrawn = queueing.withdraw(job_ids)
            recorded = change()
            if all(job_id in withdrawn for job_id, before in recorded.moved.items() if before is JobStatus.WAITING):
                return recorded
            transaction.set_rollback(True)


def _kill(job_ids: frozenset[int], wish: _Wish) -> BulkOutcome:
    # A job is seen Rescheduled only while the lease is open: then its pilot has been told already.
    marked, source, now = LEASED | {JobStatus.RESCHEDULED}, wish.by.username, wish.now
    minor = wish.reason or f"Killed by {source}"

    def change() -> Recorded:
        record = partial(transitions.record, status=JobStatus.KILLED, source=source, now=now)
        # Those that wait first, for mostly these are all.
        others = record(job_ids, minor=minor, only_from=sources_of(JobStatus.KILLED) - marked)
        held = record(others.refused, minor=MARKED_FOR_TERMINATION, only_from=marked)
        return Recorded(moved={**others.moved, **held.moved}, refused=held.refused)

    killed = out_of_queues(job_ids, change)
    rescheduling.order_to_kill(rescheduling.held(killed), now=now)
    return _outcome(killed, JobStatus.KILLED)


def _delete(job_ids: frozenset[int], wish: _Wish) -> BulkOutcome:
    return _leave_queues(job_ids, status=JobStatus.DELETED, minor=f"Deleted by {wish.by.username}", wish=wish)


def _hold(job_ids: frozenset[int], wish: _Wish) -> BulkOutcome:
    minor = wish.reason or f"Held by {wish.by.username}"
    held_back = queueing.held_back(job_ids)
    outcome = _leave_queues(job_ids, status=JobStatus.HELD, minor=minor, wish=wish)
    enqueueing.carry_held_back({job_id: held_back[job_id] for job_id in outcome.done & held_back.keys()})
    return outcome


def _release(job_ids: frozenset[int], wish: _Wish) -> BulkOutcome:
    released = transitions.record(
        job_ids,
        status=JobStatus.WAITING,
        minor=f"Released by {wish.by.username}",
        source=wish.by.username,
        now=wish.now,
        # Rescheduled may become Waiting too, but not before its pilot has let go of it.
        only_from={JobStatus.HELD},
    )
    jobs = list(Job.objects.filter(pk__among=released.moved.keys()))
    enqueueing.put_back_in_queues(jobs, now=wish.now, held_back=enqueueing.carried_by(jobs))
    refused = {
        job_id: transitions.IllegalTransitionError(f"Job {job_id} is {status}; only a Held job can be released.")
        for job_id, status in released.refused.items()
    }
    return BulkOutcome(done=frozenset(released.moved), refused=refused)


def _reschedule(job_ids: frozenset[int], wish: _Wish) -> BulkOutcome:
    done, refused = rescheduling.reschedule(job_ids, source=wish.by.username, now=wish.now)
    return BulkOutcome(done=done, refused=refused)


def _leave_queues(job_ids: frozenset[int], *, status: JobStatus, minor: str, wish: _Wish) -> BulkOutcome:
    record = partial(transitions.record, status=status, minor=minor, source=wish.by.username, now=wish.now)
    return _outcome(out_of_queues(job_ids, partial(record, job_ids)), status)


def _outcome(recorded: Recorded, target: JobStatus) -> BulkOutcome:
    return BulkOutcome(done=frozenset(recorded.moved), refused=recorded.errors(target))


_STEPS: Final[Mapping[Action, Callable[[frozenset[int], _Wish], BulkOutcome]]] = MappingProxyType(
    {
        Action.KILL: _kill,
        Action.RESCHEDULE: _reschedule,
        Action.DELETE: _delete,
        Action.HOLD: _hold,
        Action.RELEASE: _release,
    }
)
