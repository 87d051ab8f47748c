"""Limit of simultaneous submissions per user, so that long ones do not occupy all workers."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings

from wms.accounts.models import User
from wms.kernel.db import LockKey, session_lock
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
