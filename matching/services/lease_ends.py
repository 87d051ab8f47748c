"""Ends of leases: their reasons, and the place to which the job goes (docs/architecture.md, Leases)."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db import connection
from django.db.models import F

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.queries import others_alive
from taskqueues.services.avoided_places import GivenBack
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import rescheduling
from wms.kernel.db import transaction_required
from wms.kernel.memo import Memo
from wms.wire.protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE, RESCHEDULE_EXIT_CODE

#: Exit codes of jobs that did not run because their node lacks what they require. A job with another code has run.
_NOT_RUN: Final = frozenset({None, RESCHEDULE_EXIT_CODE, NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE})
#: In ``sql/reports.sql``; no job of such a lease is at fault.
_END: Final = "SELECT wms_end_lease(%s, %s, false, %s, %s)"


class EndReason(StrEnum):
    """The reason for which a lease ended."""

    FINISHED = "finished"
    KILLED = "killed"
    EXPIRED = "expired"
    PILOT_ENDED = "pilot_ended"


@transaction_required
def put_back(match: Match, *, minor: str | None, memo: Memo) -> JobStatus:
    """Return the job of a lease that its pilot has ended to its task queue, or fail it after too many returns.

    A job that its owner rescheduled during the lease waits again.

    Args:
        match: the lease, ended in this transaction.
        minor: why the pilot gave the job back; None: the payload requested it.
        memo: cache of the index for lookups of the configuration.

    Returns:
        The new status of the job.
    """
    source, job = f"pilot {match.pilot_id}", match.job
    # NB: of the job's history as well: black holes are found by it.
    now = match.ended_at
    if now is None:
        raise ValueError("the lease has not ended")
    if job.status in LEASED:
        rescheduling.reschedule_or_fail(
            job.pk,
            minor=minor or "The payload requested rescheduling",
            source=source,
            now=now,
            given_back=given_back_by(match, delayed=True, memo=memo),
            deaths=_deaths_during(job),
        )
    else:
        rescheduling.requeue([job.pk], source=source, now=now)
    return JobStatus(Job.objects.values_list("status", flat=True).get(pk=job.pk))


@transaction_required
def end_unfinished(
    match: Match, job: Job, *, reason: EndReason, minor: str, source: str, now: datetime, memo: Memo, died: bool
) -> None:
    """End a lease whose pilot will not finish it; the job returns to its task queue, or fails after too many returns.

    Args:
        match: open, and locked after *job*.
        job: of the lease, locked.
        reason: why the lease ends.
        minor: the same for the job's owner.
        source: who ends it, for the job's history.
        now: by the database's clock.
        memo: cache of the index for lookups of the configuration.
        died: whether the pilot died, as far as is known, and was not ended by its batch system or by the server.
    """
    with connection.cursor() as cursor:
        cursor.execute(_END, [match.pk, reason, died, now])
    # A silent pilot had the job for the whole of its lease: no further delay is needed.
    in_silence = reason is EndReason.EXPIRED or match.pilot.status == PilotStatus.LOST
    given_back = given_back_by(match, delayed=not in_silence, memo=memo)
    rescheduling.reschedule_or_fail(
        job.pk, minor=minor, source=source, now=now, given_back=given_back, deaths=_deaths_during(job)
    )


def _deaths_during(job: Job) -> int:
    # Uses index: the one of the foreign key to the job.
    died = Match.objects.filter(job=job, died=True)
    # A pilot that reported after the lease had expired in silence was cut off, and did not die.
    return died.exclude(end_reason=EndReason.EXPIRED, pilot__last_seen_at__gt=F("ended_at")).count()


def given_back_by(match: Match, *, delayed: bool, memo: Memo) -> GivenBack | None:
    """Return the places that have given back the job of a lease so far, that of the lease last.

    None: the pilot was drained and gave back what it had, which says nothing about the place or the job.
    """
    if match.pilot.drained_at is not None:
        return None
    host, queue_id = match.pilot.host_name, match.queue_id
    if queue_id is None:
        return GivenBack(delayed=delayed, memo=memo)
    # Uses index: the one of the foreign key to the job.
    earlier = Match.objects.filter(job=match.job_id, leased_at__lt=match.leased_at, queue__isnull=False)
    tried: Iterable[int] = earlier.order_by("leased_at", "pk").values_list("queue_id", flat=True)
    others = (pk for pk in dict.fromkeys(tried) if pk != queue_id)
    return GivenBack(
        queue_ids=(*others, queue_id),
        host=host,
        other_hosts=bool(host) and others_alive(queue_id=queue_id, but=host),
        delayed=delayed,
        memo=memo,
    )


def result_of(exit_code: int | None, minor: str | None) -> tuple[JobStatus, str]:
    """Return the status of a job whose payload ended, and its minor status."""
    if exit_code == 0:
        return JobStatus.DONE, minor or "Execution complete"
    return JobStatus.FAILED, minor or ("No exit code" if exit_code is None else f"Exited with code {exit_code}")


def is_at_fault(*, job_at_fault: bool, exit_code: int | None) -> bool:
    """Return whether the job, not its node, caused the end: a payload that ran counts for its node in any case."""
    return job_at_fault and exit_code in _NOT_RUN
