"""Leases: reports of pilots on them, and their end (docs/architecture.md, Leases).

Lock order: Pilot, Job, Match. A job that returns to its task queue does so as the last locking step.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError, transaction
from django.db.models import F, Value
from django.db.models.functions import Coalesce, Greatest
from psycopg.errors import NoDataFound

from matching.models import Match
from matching.services import attempts
from matching.services.signs_of_life import seen_within_s
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.queries import others_alive
from pilots.services.reports import PilotRevokedError
from taskqueues.services.avoided_places import GivenBack
from taskqueues.services.index.shared import index
from wms.jobs.domain.lifecycle import LEASED, JobStatus, sources_of
from wms.jobs.models import Job, JobCommand
from wms.jobs.services import rescheduling, sandboxes, transitions
from wms.kernel.db import array_of, database_now, transaction_required
from wms.kernel.errors import ConflictError
from wms.kernel.fast.statements import ask_directly
from wms.kernel.memo import Memo
from wms.kernel.protocol import (
    KILL,
    LEASE_ENDED,
    NO_TAILS,
    NOT_EXECUTABLE_EXIT_CODE,
    NOT_FOUND_EXIT_CODE,
    OUTPUT_SANDBOX_NAME,
    RESCHEDULE_EXIT_CODE,
    SANDBOX_PREFIX,
    Tails,
    Usage,
)

#: Exit codes of jobs that did not run because their node lacks what they require. A job with another code has run.
_NOT_RUN: Final = frozenset({None, RESCHEDULE_EXIT_CODE, NOT_EXECUTABLE_EXIT_CODE, NOT_FOUND_EXIT_CODE})

_RENEW: Final = (
    "SELECT lease_end::text, orders::text FROM wms_heartbeat("
    "$1::uuid, $2::bigint, $3::float8, $4::float8, $5::float8, $6::float8, $7::bytea, $8::bytea, $9::float8, "
    "$10::float8)"
)
_REPORT_STATUS: Final = (
    "SELECT lease_end::text, orders::text FROM wms_report_status("
    "$1::uuid, $2::text, $3::text[], $4::text, $5::text, $6::float8, $7::float8)"
)
_END: Final = (
    "SELECT wms_end_lease("
    "$1::uuid, $2::text, $3::text[], $4::text, $5::text, $6::boolean, $7::integer, "
    "$8::float8, $9::float8, $10::float8, $11::float8, $12::text, $13::text, $14::bytea, $15::bytea, $16::float8)::text"
)
#: {status: those of leased jobs from which it can be reached}, as PostgreSQL's arrays.
_SOURCES: Final = {status: array_of(sorted(sources_of(status) & LEASED)) for status in JobStatus}


class EndReason(StrEnum):
    """The reason for which a lease ended."""

    FINISHED = "finished"
    KILLED = "killed"
    EXPIRED = "expired"
    PILOT_ENDED = "pilot_ended"


class LeaseEndedError(ConflictError):
    """The lease has ended; the pilot must stop the payload, whose job may already run elsewhere."""

    code = LEASE_ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """The answer to a report: the commands not yet acknowledged, and the end of the lease."""

    commands: Sequence[JobCommand]
    expires_at: datetime


def report_status(
    match_id: UUID, *, status: JobStatus, minor: str | None = None, application: str | None = None
) -> LeaseRenewal:
    """Set the job to Running or Completing; a job that was killed or rescheduled keeps its status.

    Raises:
        LeaseEndedError: the lease has ended; nothing has changed.
        IllegalTransitionError: the job cannot become *status* any more.
    """
    if answer := report_ordinary_status(match_id, status=status, minor=minor, application=application):
        return answer
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock_open(match_id, now=now)
        if job.status == status:
            transitions.annotate(
                job.pk,
                minor=minor,
                application=application,
                source=_source(match),
                now=now,
                only_from=LEASED,
            )
        elif job.status in LEASED:
            transitions.move(
                job.pk, status=status, minor=minor or "", application=application, source=_source(match), now=now
            )
        Match.objects.filter(pk=match.pk).update(reported_status=status)
        return _renewed(match, now=now)


def report_ordinary_status(
    match_id: UUID, *, status: JobStatus, minor: str | None, application: str | None
) -> LeaseRenewal | None:
    """Process an ordinary status report in one round trip to the database (``sql/reports.sql``).

    The arguments are those of ``report_status``.

    Returns:
        None if more is to be done, or the report must be refused: nothing has changed.
    """
    rows = _ask_unless_it_ends(
        "report_status",
        _REPORT_STATUS,
        str(match_id),
        status,
        _SOURCES[status],
        minor or "",
        application,
        repr(settings.WMS_LEASE_S),
        repr(seen_within_s()),
    )
    return _renewal(rows[0]) if rows else None


def heartbeat(match_id: UUID, *, usage: Usage, tails: Tails, acknowledged: Collection[int]) -> LeaseRenewal:
    """Renew the lease, record the usage and the last lines of the payload, and return the commands to execute.

    An acknowledged kill command ends the lease: the payload is gone.

    Raises:
        PilotRevokedError: the credentials of the lease's pilot were revoked; nothing has changed.
        LeaseEndedError: the lease has ended; nothing has changed.
    """
    if not acknowledged and (answer := renew(match_id, usage=usage, tails=tails)):
        return answer
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock_open(match_id, now=now)
        _note_usage(job, usage, now=now)
        attempts.store_tails(job, tails)
        attempts.sample_usage(job, usage, reported_at=match.reported_at, now=now)
        if job.status == JobStatus.STALLED:
            transitions.move(
                job.pk,
                status=JobStatus(match.reported_status),
                minor="Heartbeats resumed",
                source=_source(match),
                now=now,
            )
        obeyed = JobCommand.objects.filter(job=job, pk__in=acknowledged, acknowledged_at__isnull=True)
        killed = obeyed.filter(name=KILL).exists()
        obeyed.update(acknowledged_at=now)
        if killed:
            _end(match, reason=EndReason.KILLED, now=now)
            rescheduling.requeue([job.pk], source=_source(match), now=now)
            return LeaseRenewal(commands=[], expires_at=now)
        return _renewed(match, now=now)


def renew(match_id: UUID, *, of: int | None = None, usage: Usage, tails: Tails) -> LeaseRenewal | None:
    """Process an ordinary heartbeat in one round trip to the database; its text is ``sql/heartbeat.sql``.

    Args:
        match_id: the lease.
        of: primary key of the pilot that must hold the lease; None: already checked.
        usage: of the payload so far.
        tails: its last lines.

    Returns:
        None if more is to be done, or the heartbeat must be refused: nothing has changed.
    """
    rows = _ask_unless_it_ends(
        "heartbeat",
        _RENEW,
        str(match_id),
        *(None if value is None else repr(value) for value in (of, *usage)),
        *attempts.stored_texts(tails),
        repr(settings.WMS_LEASE_S),
        repr(seen_within_s()),
    )
    return _renewal(rows[0]) if rows else None


def _ask_unless_it_ends(name: str, statement: str, *parameters: str | None) -> list[tuple[str | None, ...]]:
    """Return the rows of a report's statement; none if the lease has ended meanwhile, which rolled it back."""
    try:
        return ask_directly(name, statement, *parameters)
    except DatabaseError as error:
        if isinstance(error.__cause__, NoDataFound):
            return []
        raise


def _renewal(row: tuple[str | None, ...]) -> LeaseRenewal:
    lease_end, orders = row
    rows_of_commands = () if orders is None else json.loads(orders)
    commands = [JobCommand(pk=pk, name=name, arguments=arguments) for pk, name, arguments in rows_of_commands]
    return LeaseRenewal(commands=commands, expires_at=datetime.fromisoformat(str(lease_end)))


def finish(
    match_id: UUID,
    *,
    exit_code: int | None,
    minor: str | None,
    usage: Usage,
    output_sandbox: str | None,
    tails: Tails = NO_TAILS,
    job_at_fault: bool = False,
    supervisor_died: bool = False,
) -> JobStatus:
    """End the lease with the payload's exit code: 0 Done, 222 back to the queue, anything else Failed.

    A job that was killed or rescheduled keeps its status; usage, output and last lines are recorded all the same.
    Repeating it is harmless.

    Args:
        match_id: the lease.
        exit_code: of the payload; None: none (never started, or stopped by the watchdog).
        minor: the reason in words; None: derived from the exit code.
        usage: over the payload's whole life.
        output_sandbox: ``sha256:…`` of the archive that was uploaded for the job.
        tails: last lines of the payload.
        job_at_fault: whether it ended because the node lacks what the job itself requires; ignored if *exit_code* shows
            that the payload has run.
        supervisor_died: whether the pilot returns the job because its process for the job died.

    Returns:
        The new status of the job.

    Raises:
        LeaseEndedError: the lease has expired, or was not ended by the pilot; nothing has changed.
        UnusableSandboxError: *output_sandbox* was not uploaded for this job.
    """
    if exit_code != RESCHEDULE_EXIT_CODE:
        ended = end_ordinarily(
            match_id,
            exit_code=exit_code,
            minor=minor,
            usage=usage,
            output_sandbox=output_sandbox,
            tails=tails,
            job_at_fault=job_at_fault,
        )
        if ended is not None:
            return ended
    # Before the transaction: inside a transaction the index keeps no memo.
    memo = index.current().memo if exit_code == RESCHEDULE_EXIT_CODE else {}
    with transaction.atomic(durable=True):
        now = database_now()
        match, job = _lock(match_id, now=now)
        if match.end_reason == EndReason.FINISHED:
            return JobStatus(job.status)
        if match.ended_at is not None and not _is_last_word(match, job):
            raise _ended(match)
        _note_usage(job, usage, now=now)
        attempts.store_tails(job, tails)
        _note_output(job, output_sandbox, exit_code=exit_code)
        if match.ended_at is None:
            at_fault = _is_at_fault(job_at_fault=job_at_fault, exit_code=exit_code)
            died = supervisor_died and exit_code == RESCHEDULE_EXIT_CODE and _payload_ran(match)
            _end(match, reason=EndReason.FINISHED, now=now, job_at_fault=at_fault, died=died)
            _conclude(match, job, exit_code=exit_code, minor=minor, now=now, memo=memo)
        return JobStatus(Job.objects.values_list("status", flat=True).get(pk=job.pk))


def end_ordinarily(
    match_id: UUID,
    *,
    exit_code: int | None,
    minor: str | None,
    usage: Usage,
    output_sandbox: str | None,
    tails: Tails,
    job_at_fault: bool,
) -> JobStatus | None:
    """Process an ordinary end in one round trip to the database (``sql/reports.sql``).

    The arguments are those of ``finish``; the exit code is not that of a request for rescheduling.

    Returns:
        The new status of the job. None if more is to be done, or the end must be refused: nothing has changed.
    """
    status, reason = _result(exit_code, minor)
    rows = _ask_unless_it_ends(
        "end_lease",
        _END,
        str(match_id),
        status,
        _SOURCES[status],
        reason,
        EndReason.FINISHED,
        str(_is_at_fault(job_at_fault=job_at_fault, exit_code=exit_code)),
        *(None if value is None else repr(value) for value in (exit_code, *usage)),
        None if output_sandbox is None else output_sandbox.removeprefix(SANDBOX_PREFIX),
        OUTPUT_SANDBOX_NAME,
        *attempts.stored_texts(tails),
        repr(seen_within_s()),
    )
    return status if rows == [("true",)] else None


def open_job(match_id: UUID) -> Job:
    """Return the job of an open lease, with its owner and VO.

    Raises:
        PilotRevokedError: the credentials of the lease's pilot were revoked.
        LeaseEndedError: the lease has ended.
    """
    match = Match.objects.select_related("job__owner", "job__vo", "job__stored_description", "pilot").get(pk=match_id)
    if match.pilot.revoked_at is not None:
        raise _revoked()
    if match.ended_at is not None:
        raise _ended(match)
    return match.job


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


def _lock(match_id: UUID, *, now: datetime) -> tuple[Match, Job]:
    seen = Match.objects.only("job_id", "pilot_id").get(pk=match_id)
    # Pilot first: the lock order.
    alive = Pilot.objects.filter(pk=seen.pilot_id, revoked_at__isnull=True).update(last_seen_at=now)
    if not alive:
        raise _revoked()
    job = Job.objects.select_for_update(of=("self",)).get(pk=seen.job_id)
    match = Match.objects.select_for_update(of=("self",)).get(pk=match_id)
    return match, job


def _lock_open(match_id: UUID, *, now: datetime) -> tuple[Match, Job]:
    match, job = _lock(match_id, now=now)
    if match.ended_at is not None:
        raise _ended(match)
    return match, job


def _revoked() -> PilotRevokedError:
    return PilotRevokedError("The credentials of this pilot were revoked; stop the payload and leave.")


def _ended(match: Match) -> LeaseEndedError:
    return LeaseEndedError(f"This lease has ended ({match.end_reason}); stop the payload, and request another job.")


def _is_last_word(match: Match, job: Job) -> bool:
    """Return whether a pilot that executed a kill command may still add usage and output: it had the job last."""
    obeyed = match.end_reason == EndReason.KILLED and job.status == JobStatus.KILLED
    return obeyed and not Match.objects.filter(job=job, leased_at__gt=match.leased_at).exists()


def _renewed(match: Match, *, now: datetime) -> LeaseRenewal:
    # Never shorter: the expirer may have extended it after its own outage.
    lease_end = now + timedelta(seconds=settings.WMS_LEASE_S)
    expires_at = lease_end if match.reported_at is None else max(match.expires_at, lease_end)
    Match.objects.filter(pk=match.pk).update(expires_at=expires_at, reported_at=now)
    # Uses index: command_to_be_obeyed
    commands = JobCommand.objects.filter(job=match.job_id, acknowledged_at__isnull=True)
    return LeaseRenewal(commands=list(commands.order_by("pk")), expires_at=expires_at)


def _note_usage(job: Job, usage: Usage, *, now: datetime) -> None:
    columns: dict[str, object] = {"heartbeat_at": now}
    # The highest value: reports may arrive late.
    for column, value in (
        ("cpu_s", usage.cpu_s),
        ("wall_s", usage.wall_s),
        ("max_memory_mb", usage.memory_mb),
        ("max_disk_mb", usage.disk_mb),
    ):
        if value is not None:
            columns[column] = Greatest(Coalesce(F(column), Value(value)), Value(value))
    Job.objects.filter(pk=job.pk).update(**columns)


def _note_output(job: Job, reference: str | None, *, exit_code: int | None) -> None:
    output = None if reference is None else sandboxes.output_of(job, reference=reference)
    Job.objects.filter(pk=job.pk).update(exit_code=exit_code, output_sandbox=output)


def _end(match: Match, *, reason: EndReason, now: datetime, job_at_fault: bool = False, died: bool = False) -> None:
    Match.objects.filter(pk=match.pk).update(ended_at=now, end_reason=reason, job_at_fault=job_at_fault, died=died)
    # Commands for this lease; they must not reach the next pilot of the job.
    JobCommand.objects.filter(job=match.job_id, acknowledged_at__isnull=True).update(acknowledged_at=now)


def _conclude(match: Match, job: Job, *, exit_code: int | None, minor: str | None, now: datetime, memo: Memo) -> None:
    source = _source(match)
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
        status, reason = _result(exit_code, minor)
        if status is JobStatus.DONE and job.status in {JobStatus.MATCHED, JobStatus.STALLED}:
            # A pilot may have been cut off while its payload ran: there is no transition from there to Done.
            transitions.move(job.pk, status=JobStatus.COMPLETING, source=source, now=now)
        transitions.move(job.pk, status=status, minor=reason, source=source, now=now)


def _result(exit_code: int | None, minor: str | None) -> tuple[JobStatus, str]:
    """Return the status of a job whose payload ended, and its minor status."""
    if exit_code == 0:
        return JobStatus.DONE, minor or "Execution complete"
    return JobStatus.FAILED, minor or ("No exit code" if exit_code is None else f"Exited with code {exit_code}")


def _is_at_fault(*, job_at_fault: bool, exit_code: int | None) -> bool:
    # A payload that ran counts for its node, whatever the pilot reports.
    return job_at_fault and exit_code in _NOT_RUN


def _source(match: Match) -> str:
    return f"pilot {match.pilot_id}"
