"""Ends of leases: their reasons, and the place to which the job goes (docs/architecture.md, Leases)."""

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Final

from django.db.models import F

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.queries import others_alive
from taskqueues.services.avoided_places import GivenBack
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import Job, JobCommand
from wms.jobs.services import rescheduling, transitions
from wms.kernel.db import transaction_required
from wms.kernel.memo import Memo
from wms.wire.protocol import NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE, RESCHEDULE_EXIT_CODE

#: Exit codes of jobs that did not run because their node lacks what they require. A job with another code has run.
_NOT_RUN: Final = frozenset({None, RESCHEDULE_EXIT_CODE, NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE})


class EndReason(StrEnum):
    """The reason for which a lease ended."""

    FINISHED = "finished"
    KILLED = "killed"
    EXPIRED = "expired"
    PILOT_ENDED = "pilot_ended"


@transaction_required
def end_finished(
    match: Match,
    job: Job,
    *,
    exit_code: int | None,
    minor: str | None,
    job_at_fault: bool,
    supervisor_died: bool,
    now: datetime,
    memo: Memo,
) -> None:
    """End a lease whose pilot has reported the end of the payload, and decide about the job by its exit code.

    Args:
        match: open, and locked after *job*.
        job: of the lease, locked.
        exit_code: as of ``leases.finish``, like the next three.
        minor: the same.
        job_at_fault: the same.
        supervisor_died: the same.
        now: by the database's clock.
        memo: cache of the index for lookups of the configuration.
    """
    at_fault = is_at_fault(job_at_fault=job_at_fault, exit_code=exit_code)
    died = supervisor_died and exit_code == RESCHEDULE_EXIT_CODE and _payload_ran(match)
    _end(match, reason=EndReason.FINISHED, now=now, job_at_fault=at_fault, died=died)
    _conclude(match, job, exit_code=exit_code, minor=minor, now=now, memo=memo)


@transaction_required
def end_killed(match: Match, job: Job, *, now: datetime) -> None:
    """End an open lease whose pilot has executed a kill command; a job that was rescheduled meanwhile waits again."""
    _end(match, reason=EndReason.KILLED, now=now)
    rescheduling.requeue([job.pk], source=source_of(match), now=now)


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
    _end(match, reason=reason, now=now, died=died and _payload_ran(match))
    # A silent pilot had the job for the whole of its lease: no further delay is needed.
    in_silence = reason is EndReason.EXPIRED or match.pilot.status == PilotStatus.LOST
    given_back = given_back_by(match, delayed=not in_silence, memo=memo)
    rescheduling.reschedule_or_fail(
        job.pk, minor=minor, source=source, now=now, given_back=given_back, deaths=_deaths_during(job)
    )


def _payload_ran(match: Match) -> bool:
    return match.reported_status == JobStatus.RUNNING


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


def _conclude(match: Match, job: Job, *, exit_code: int | None, minor: str | None, now: datetime, memo: Memo) -> None:
    source = source_of(match)
    if job.status not in LEASED:
        # Killed or rescheduled: a killed job stays so, a rescheduled one can wait again now that nothing runs.
        rescheduling.requeue([job.pk], source=source, now=now)
    elif exit_code == RESCHEDULE_EXIT_CODE:
        reason = minor or "The payload requested rescheduling"
        given_back = given_back_by(match, delayed=True, memo=memo)
        rescheduling.reschedule_or_fail(
            job.pk, minor=reason, source=source, now=now, given_back=given_back, deaths=_deaths_during(job)
        )
    else:
        status, reason = result_of(exit_code, minor)
        if status is JobStatus.DONE and job.status in {JobStatus.MATCHED, JobStatus.STALLED}:
            # A pilot may have been cut off while its payload ran: there is no transition from there to Done.
            transitions.move(job.pk, status=JobStatus.COMPLETING, source=source, now=now)
        transitions.move(job.pk, status=status, minor=reason, source=source, now=now)


def _end(match: Match, *, reason: EndReason, now: datetime, job_at_fault: bool = False, died: bool = False) -> None:
    Match.objects.filter(pk=match.pk).update(ended_at=now, end_reason=reason, job_at_fault=job_at_fault, died=died)
    # Commands for this lease; they must not reach the next pilot of the job.
    JobCommand.objects.filter(job=match.job_id, acknowledged_at__isnull=True).update(acknowledged_at=now)


def result_of(exit_code: int | None, minor: str | None) -> tuple[JobStatus, str]:
    """Return the status of a job whose payload ended, and its minor status."""
    if exit_code == 0:
        return JobStatus.DONE, minor or "Execution complete"
    return JobStatus.FAILED, minor or ("No exit code" if exit_code is None else f"Exited with code {exit_code}")


def is_at_fault(*, job_at_fault: bool, exit_code: int | None) -> bool:
    """Return whether the job, not its node, caused the end: a payload that ran counts for its node in any case."""
    return job_at_fault and exit_code in _NOT_RUN


def source_of(match: Match) -> str:
    """Return the author of changes by the lease's pilot, for the job's history."""
    return f"pilot {match.pilot_id}"
