"""Limits of each user: simultaneous submissions, waiting jobs, and what is made in a day."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings

from taskqueues.services.quotas import QuotaExceededError
from wms.accounts.domain import GroupProperty
from wms.accounts.models import Group, User
from wms.jobs.queries.amounts import waiting_jobs_of
from wms.jobs.sql.arrivals import count_today, stored_outputs_of
from wms.kernel.db import LockKey, lock, session_lock, transaction_required
from wms.kernel.errors import TooManyError


class SubmissionsInFlightError(TooManyError):
    """The user has as many submissions under way as allowed."""

    code = "submissions_in_flight"


@contextmanager
def submission_in_flight(user: User, *, spared: int = 0) -> Iterator[None]:
    """Hold one of the user's places for submissions, which all web processes share.

    Enter it before the body is read: parsing a large description takes longer than storing it.

    Args:
        user: who submits.
        spared: number of places that are left to others, if there are more.

    Raises:
        SubmissionsInFlightError: all WMS_MAX_SUBMISSIONS_IN_FLIGHT places are taken.
    """
    most = settings.WMS_MAX_SUBMISSIONS_IN_FLIGHT
    with session_lock(LockKey.SUBMISSIONS_IN_FLIGHT, of=user.pk, places=most, spared=spared) as is_held:
        if not is_held:
            raise SubmissionsInFlightError(
                f"The server works on {most} of your submissions, as many as it does at a time; try again when one is "
                "answered, or submit more jobs in one request.",
                retry_after_s=1,
            )
        yield


class DayExceededError(TooManyError):
    """The user would make more in this day than WMS_MAX_JOBS_PER_DAY or WMS_MAX_DESCRIPTION_BYTES_PER_DAY."""

    code = "day_exceeded"


#: Part of a bound from which on answers say what is left of it.
_SAID_FROM: Final = 0.8


@transaction_required
def refuse_too_many_waiting(owner: User, group: Group, *, coming: int) -> None:
    """Refuse jobs if more than WMS_MAX_WAITING_JOBS_PER_USER of *owner* would be Waiting, Held or Checking.

    Other jobs of the user wait until the end of the transaction. Jobs in groups with PRODUCTION neither count nor are
    refused. Rescheduled jobs return whatever the limit is, so that none is lost.

    Args:
        owner: the owner of the jobs.
        group: the group in which they act.
        coming: the number of jobs.

    Raises:
        QuotaExceededError: the limit would be exceeded; no job is accepted.
    """
    most = settings.WMS_MAX_WAITING_JOBS_PER_USER
    if not most or GroupProperty.PRODUCTION in group.properties:
        return
    lock(LockKey.COUNT_JOBS_OF_USER, of=owner.pk % 2**31)
    waiting = waiting_jobs_of(owner)
    if waiting + coming > most:
        raise QuotaExceededError(
            f"At most {most:,} of your jobs may wait; {min(waiting, most):,} wait, and {coming:,} would be added. "
            "Submit fewer, wait until some have run, or ask an operator to give "
            f"{group} the property PRODUCTION, which lifts this."
        )


@transaction_required
def count_in_day(owner: User, group: Group, *, jobs: int, description_bytes: Callable[[], int]) -> str:
    """Count what *owner* makes against what a user may make in a day; other submissions of the user wait.

    Jobs count for the whole day, whatever becomes of them. Jobs in groups with PRODUCTION are not counted.

    Args:
        owner: of the jobs.
        group: in which they act.
        jobs: that are new.
        description_bytes: returns the size of the descriptions that may be stored for them.

    Returns:
        A sentence on what is left, if that is little; else empty.

    Raises:
        DayExceededError: it is more than is left; nothing is counted.
    """
    most_jobs, most_bytes = settings.WMS_MAX_JOBS_PER_DAY, settings.WMS_MAX_DESCRIPTION_BYTES_PER_DAY
    if not (most_jobs or most_bytes) or GroupProperty.PRODUCTION in group.properties:
        return ""
    size_bytes = description_bytes()
    today = count_today(owner.pk, jobs=jobs, description_bytes=size_bytes)
    bounds = [
        (today.jobs, most_jobs, jobs, "jobs"),
        (today.description_bytes, most_bytes, size_bytes, "bytes of descriptions"),
    ]
    for made, most, coming, noun in bounds:
        if 0 < most < made:
            raise DayExceededError(
                f"At most {most:,} {noun} of a user are accepted in a day; {made - coming:,} were today, and "
                f"{coming:,} would be added. Submit fewer, or try again in {_duration(today.left_s)}, after midnight "
                f"in UTC. Killed and deleted jobs count, too; an operator can give {group} the property PRODUCTION, "
                "which lifts this.",
                retry_after_s=today.left_s,
            )
    left = [f"{most - made:,} of {most:,} {noun}" for made, most, _, noun in bounds if 0 < _SAID_FROM * most < made]
    return f"Until midnight in UTC you may submit {' and '.join(left)} more." if left else ""


def warn_of_outputs(owner: User) -> str:
    """Return a sentence on the quota of outputs, if it is nearly full, so that jobs do not run in vain; else empty."""
    quota = settings.WMS_OUTPUT_QUOTA_BYTES
    stored = stored_outputs_of(owner.pk) if quota else 0
    if stored <= _SAID_FROM * quota:
        return ""
    return (
        f"Outputs of your jobs take {stored:,} of {quota:,} bytes; beyond that further outputs are refused. Delete "
        "jobs whose output you no longer need."
    )


def _duration(seconds: int) -> str:
    hours, minutes = divmod(max(1, math.ceil(seconds / 60)), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
