"""Quotas of waiting jobs, of users, groups, VOs and job types (DESIGN §3.6)."""

from collections.abc import Mapping

from django.db.models import Q

from taskqueues.models import Limit, QueuedJob
from taskqueues.queries import limit_in_words
from wms.kernel.db import LockKey, lock, transaction_required
from wms.kernel.errors import ConflictError


class QuotaExceededError(ConflictError):
    """With the jobs of the request more would wait than a limit allows."""

    code = "quota_exceeded"


@transaction_required
def refuse_beyond(*, vo_id: int, group_id: int, owner_id: int, coming: Mapping[str, int]) -> None:
    """Refuse jobs of which more would wait than a quota allows; until the end of the transaction no others come in.

    Jobs that waited before come back whatever the quotas are: nobody shall lose a job by being rescheduled.

    Args:
        vo_id, group_id, owner_id: of the jobs.
        coming: how many jobs of which type.

    Raises:
        QuotaExceededError: naming the quota.
    """
    limits = Limit.objects.filter(
        Q(vo=None) | Q(vo=vo_id),
        Q(group=None) | Q(group=group_id),
        Q(user=None) | Q(user=owner_id),
        job_type__in=["", *coming],
        waiting__isnull=False,
    )
    for limit in limits.select_related("vo", "group", "user").order_by("pk"):
        number = sum(coming.values()) if limit.job_type == "" else coming[limit.job_type]
        # Not its row: claims that count in the same limit do not wait for a long submission.
        lock(LockKey.COUNT_WAITING_JOBS, of=limit.pk)
        waiting = _waiting_of(limit)
        if limit.waiting is not None and waiting + number > limit.waiting:
            raise QuotaExceededError(
                f"At most {limit.waiting} jobs of {limit_in_words(limit)} may wait; {waiting} do, and {number} would "
                "come. Submit fewer, or wait until some have run."
            )


def _waiting_of(limit: Limit) -> int:
    # Uses index: queued_job_oldest_of_level
    waiting = QueuedJob.objects.all()
    for name, wanted in (("vo", limit.vo_id), ("group", limit.group_id), ("owner", limit.user_id)):
        if wanted is not None:
            waiting = waiting.filter(**{f"task_queue__{name}": wanted})
    if limit.job_type:
        waiting = waiting.filter(task_queue__job_type=limit.job_type)
    return waiting.count()
