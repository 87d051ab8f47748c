"""The default limit of waiting jobs per user."""

from typing import Final

from django.conf import settings
from django.db.models import Sum

from taskqueues.services.quotas import QuotaExceededError
from wms.accounts.domain import GroupProperty
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentJobCount
from wms.kernel.db import LockKey, lock, transaction_required

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
