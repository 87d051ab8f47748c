"""Suspensions of people: their payloads end, and their waiting jobs wait on (ADR 111)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wms.accounts.models import User
from wms.accounts.services.members import set_suspended
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import CurrentJobCount, Job
from wms.jobs.queries.amounts import leased_and_waiting
from wms.jobs.services import rescheduling, transitions
from wms.kernel.db import transaction_required

#: Minor status of a job that was killed because of a suspension.
OWNER_SUSPENDED: Final = "Owner suspended"
#: Source of the change in the history of a job where no person made it.
SOURCE: Final = "suspension"


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspensionResult:
    """The jobs that a suspension, or its end, concerns, of those that the acting user sees."""

    #: Jobs that pilots held: they are Killed, and their payloads end. None: the suspension has ended.
    killed: int | None
    #: Jobs that wait, and are held or checked; they stay.
    waiting: int

    def __str__(self) -> str:
        if self.killed is None:
            return f"the suspension has ended; waiting jobs, which can be matched again: {self.waiting}"
        return f"suspended; payloads killed: {self.killed}; jobs that wait, and are not matched: {self.waiting}"


@transaction_required
def suspend(people: Collection[User], *, reason: str, by: User, now: datetime) -> SuspensionResult:
    """Suspend people, and kill the jobs of theirs that pilots hold; repeated, it kills those that pilots hold by then.

    Args:
        people: whom *by* may suspend; updated too.
        reason: for the security log; may be empty.
        by: the acting user.
        now: time of the suspension.
    """
    for person in people:
        set_suspended(person, suspended=True, reason=reason, by=by)
    return end_payloads(people, by=by, now=now)


@transaction_required
def restore(people: Collection[User], *, reason: str, by: User) -> SuspensionResult:
    """End the suspension of people, whose waiting jobs are matched again; their tokens stay revoked.

    Args:
        people: whom *by* may restore; updated too.
        reason: for the security log; may be empty.
        by: the acting user.
    """
    for person in people:
        set_suspended(person, suspended=False, reason=reason, by=by)
    return SuspensionResult(killed=None, waiting=leased_and_waiting(people, seen_by=by)[1])


@transaction_required
def end_payloads(people: Collection[User], *, by: User | None, now: datetime) -> SuspensionResult:
    """Kill the jobs of suspended people that pilots hold, and return the numbers.

    Args:
        people: whose suspension is written.
        by: the acting user; None: nobody known, who sees all.
        now: time of the suspension.
    """
    killed = _kill(people, source=by.username if by else SOURCE, now=now)
    seen_by = by or User(operator=True)
    seen = Job.objects.visible_to(seen_by).filter(pk__among=killed).count() if killed else 0
    _, waiting = leased_and_waiting(people, seen_by=seen_by)
    return SuspensionResult(killed=seen, waiting=waiting)


@transaction_required
def end_payloads_of_suspended(*, now: datetime) -> int:
    """Kill the jobs of all suspended people that pilots hold, and return their number.

    For claims that began before a suspension, and for suspensions that no service made.
    """
    return len(_kill(None, source=SOURCE, now=now))


def _kill(people: Collection[User] | None, *, source: str, now: datetime) -> frozenset[int]:
    of_whom = {"owner__is_active": False} if people is None else {"owner__in": [person.pk for person in people]}
    # Uses index: job_count_is_one_row
    counts = CurrentJobCount.objects.filter(status__in=LEASED, jobs__gt=0, **of_whom)
    found = frozenset(counts.values_list("owner_id", "group_id"))
    if not found:
        return frozenset()
    owners, groups = zip(*found, strict=True)
    # Uses index: job_of_its_kind
    held = Job.objects.filter(owner__in={*owners}, group__in={*groups}, status__in=LEASED)
    job_ids = list(held.values_list("pk", flat=True))
    killed = transitions.record(
        job_ids, status=JobStatus.KILLED, minor=OWNER_SUSPENDED, source=source, now=now, only_from=LEASED
    )
    rescheduling.order_to_kill(killed.moved, now=now)
    return frozenset(killed.moved)
