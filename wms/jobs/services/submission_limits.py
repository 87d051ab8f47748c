"""Limits of each user: simultaneous submissions, and waiting jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.conf import settings
from django.db.models import Sum

from taskqueues.services.quotas import QuotaExceededError
from wms.accounts.domain import GroupProperty
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentJobCount
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


_WAITING: Final = (JobStatus.WAITING, JobStatus.HELD, JobStatus.CHECKING)


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
    # Uses index: job_count_is_one_row
    theirs = CurrentJobCount.objects.filter(owner=owner, status__in=_WAITING).exclude(
        group__in=Group.objects.production()
    )
    waiting = int(theirs.aggregate(sum=Sum("jobs"))["sum"] or 0)
    if waiting + coming > most:
        raise QuotaExceededError(
            f"At most {most:,} of your jobs may wait; {min(waiting, most):,} wait, and {coming:,} would be added. "
            "Submit fewer, wait until some have run, or ask an operator to give "
            f"{group} the property PRODUCTION, which lifts this."
        )
