"""Submissions whose first jobs, the canaries, run before the others, which are Held until these are Done (ADR 118)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction

from wms.jobs.domain.canaries import reason_of
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, Submission, SubmissionCanary
from wms.jobs.services import control, transitions
from wms.kernel.db import transaction_required

#: Source in the histories of jobs.
SOURCE: Final = "canary"
#: Submissions that a run looks at, those that were not looked at for longest first.
AT_ONCE: Final = 500
#: Time until a submission is looked at again.
LOOK_EVERY: Final = timedelta(seconds=10)


@transaction_required
def hold(job_ids: Sequence[int], *, submission: Submission, canaries: Sequence[int], now: datetime) -> None:
    """Hold new jobs, which are in no task queue yet, until the canaries of their submission are Done."""
    reason = reason_of(canaries, dict.fromkeys(canaries, JobStatus.WAITING))
    transitions.record(job_ids, status=JobStatus.HELD, minor=reason, source=SOURCE, now=now)
    SubmissionCanary.objects.create(
        submission=submission, job_ids=list(canaries), reason=reason, due_at=now + LOOK_EVERY
    )


def decide_due(*, now: datetime) -> int:
    """Release the held jobs of submissions whose canaries are Done, and return their number.

    Where a canary has ended otherwise, the held jobs say so, and stay held until somebody releases or kills them, or
    the canary is rescheduled and becomes Done.
    """
    due = SubmissionCanary.objects.filter(due_at__lte=now).order_by("due_at", "pk").values_list("pk", flat=True)
    return sum(_decide(pk, now=now) for pk in list(due[:AT_ONCE]))


@transaction.atomic(durable=True)
def _decide(submission_id: UUID, *, now: datetime) -> int:
    canary = SubmissionCanary.objects.select_for_update(skip_locked=True).filter(pk=submission_id).first()
    if canary is None:
        return 0
    statuses = {
        pk: JobStatus(status)
        for pk, status in Job.objects.filter(pk__in=canary.job_ids).values_list("pk", "status")
    }  # fmt: skip
    reason = reason_of(canary.job_ids, statuses)
    # Who held a job for another reason keeps it held. Uses index: job_of_submission
    held = Job.objects.filter(submission=submission_id, status=JobStatus.HELD, minor_status=canary.reason)
    if reason == canary.reason and held.exists():
        SubmissionCanary.objects.filter(pk=submission_id).update(due_at=now + LOOK_EVERY)
        return 0
    job_ids = list(held.values_list("pk", flat=True))
    if not job_ids or not reason:
        canary.delete()
        return len(control.release(job_ids, minor="Released by its canary", source=SOURCE, now=now).done)
    transitions.remark(job_ids, minor=reason, source=SOURCE, now=now, only_from={JobStatus.HELD})
    SubmissionCanary.objects.filter(pk=submission_id).update(reason=reason, due_at=now + LOOK_EVERY)
    return 0
