"""Reports of pilots on leases, the last of which ends the lease (docs/architecture.md, Leases).

The functions of ``sql/reports.sql`` decide and write everything (ADR 70). These translate their arguments and results,
and put a job that goes back into its task queue, as the last locking step of the same transaction.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Final, ParamSpec, TypedDict, TypeVar
from uuid import UUID

import msgspec
from django.conf import settings
from django.db import DatabaseError, transaction
from psycopg.errors import NoDataFound

from matching.models import Match
from matching.services.claim import seen_within_s
from matching.services.lease_ends import is_at_fault, put_back, result_of
from pilots.services.reports import PilotRevokedError
from taskqueues.services.index.shared import index
from wms.jobs.domain.causes import LONGEST_LINE, LOST_OUTPUT, cause_of
from wms.jobs.domain.lifecycle import LEASED, JobStatus, sources_of
from wms.jobs.models import Job, JobCommand
from wms.jobs.services import sandboxes, transitions
from wms.kernel.db import array_of, transaction_required
from wms.kernel.errors import ConflictError, NotFoundError, WmsError
from wms.kernel.fast.statements import query_directly
from wms.kernel.fields import compressed, decompressed
from wms.kernel.life import LifeEvent, tell
from wms.wire.protocol import (
    LEASE_ENDED,
    NO_TAILS,
    OUTPUT_SANDBOX_NAME,
    RESCHEDULE_EXIT_CODE,
    SANDBOX_PREFIX,
    Tails,
    Usage,
)

#: A report that is overtaken more often than any sequence of changes explains is an error.
_MOST_REPETITIONS: Final = 10

#: Exit codes of payloads that have not failed by themselves.
_NO_FAILURE: Final = (None, 0, RESCHEDULE_EXIT_CODE)

P = ParamSpec("P")
R = TypeVar("R")

_HEARTBEAT: Final = (
    "SELECT wms_heartbeat($1::uuid, $2::bigint, $3::float8, $4::float8, $5::float8, $6::float8, $7::bytea, $8::bytea, "
    "$9::bigint[], $10::float8, $11::float8, $12::float8)::text"
)
_REPORT_STATUS: Final = (
    "SELECT wms_report_status($1::uuid, $2::bigint, $3::text, $4::text[], $5::text, $6::text, $7::float8, $8::float8, "
    "$9::integer)::text"
)
_FINISH: Final = (
    "SELECT wms_finish($1::uuid, $2::bigint, $3::text, $4::text[], $5::text, $6::boolean, $7::boolean, $8::integer, "
    "$9::float8, $10::float8, $11::float8, $12::float8, $13::text, $14::text, $15::bytea, $16::bytea, $17::text, "
    "$18::text, $19::float8, $20::float8, $21::boolean)::text"
)
#: Last lines of the attempt of a lease, compressed.
# Uses index: jobs_outputtail_pkey
_STORED_TAILS: Final = """
SELECT encode(tail.std_output, 'hex'), encode(tail.std_error, 'hex')
  FROM matching_match AS its
  JOIN jobs_job AS job ON job.id = its.job_id
  JOIN jobs_outputtail AS tail ON tail.job_id = job.id AND tail.attempt = wms_attempt(job.reschedules, job.status::text)
 WHERE its.id = $1::uuid
"""
#: {status: those of leased jobs from which it can be reached}, as PostgreSQL's arrays.
_SOURCES: Final = {status: array_of(sorted(sources_of(status) & LEASED)) for status in JobStatus}


class NoSuchLeaseError(NotFoundError):
    """The lease is unknown, or another pilot's."""

    def __init__(self) -> None:
        super().__init__("There is no such lease for this token.")


class TooManyChangesOfLeaseError(ConflictError):
    """The lease has changed the words of its job WMS_MAX_CHANGES_PER_LEASE times; only its status may still change."""

    code = "too_many_changes_of_lease"


class LeaseEndedError(ConflictError):
    """The lease has ended; the pilot must stop the payload, whose job may already run elsewhere."""

    code = LEASE_ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """The answer to a report: the commands not yet acknowledged, and the end of the lease."""

    commands: Sequence[JobCommand]
    expires_at: datetime


def _repeated_if_overtaken(report: Callable[P, R]) -> Callable[P, R]:
    """Make a function process its report again if job or lease were changed while it waited for their locks.

    That has rolled back what was written, and the next time the change is seen before anything is written.
    """

    @wraps(report)
    def processed(*arguments: P.args, **options: P.kwargs) -> R:
        for _ in range(_MOST_REPETITIONS):
            try:
                return report(*arguments, **options)
            except DatabaseError as error:
                if not isinstance(error.__cause__, NoDataFound):
                    raise
        return report(*arguments, **options)

    return processed


@_repeated_if_overtaken
def report_status(
    match_id: UUID,
    *,
    of: int | None = None,
    status: JobStatus,
    minor: str | None = None,
    application: str | None = None,
) -> LeaseRenewal:
    """Set the job to Running or Completing; a job that was killed or rescheduled keeps its status.

    Args:
        match_id: the lease.
        of: primary key of the pilot that must hold the lease; None: already checked.
        status: the new one; if the job has it, only its words change.
        minor: minor status; None: empty, or unchanged with the status.
        application: application status; None: unchanged.

    Raises:
        NoSuchLeaseError: the lease is unknown, or another pilot's.
        PilotRevokedError: the credentials of the lease's pilot were revoked; nothing has changed.
        LeaseEndedError: the lease has ended; nothing has changed.
        IllegalTransitionError: the job cannot become *status* any more; nothing has changed.
        TooManyChangesOfLeaseError: only words would change, and did too often; nothing has changed.
    """
    answer = _ask(
        "report_status",
        _REPORT_STATUS,
        *_texts(match_id, of),
        status,
        _SOURCES[status],
        minor,
        application,
        *_texts(settings.WMS_LEASE_S, seen_within_s(), settings.WMS_MAX_CHANGES_PER_LEASE),
    )
    if answer["moved"] and status is JobStatus.RUNNING:
        tell(LifeEvent.JOB_STARTED, job=answer["job"], pilot=answer["pilot"], lease=match_id)
    return _renewal(answer)


@_repeated_if_overtaken
def heartbeat(
    match_id: UUID, *, of: int | None = None, usage: Usage, tails: Tails, acknowledged: Collection[int]
) -> LeaseRenewal:
    """Renew the lease, record the usage and the last lines of the payload, and return the commands to execute.

    An acknowledged kill command ends the lease: the payload is gone.

    Args:
        match_id: the lease.
        of: primary key of the pilot that must hold the lease; None: already checked.
        usage: of the payload so far; time beyond what the lease allows is cut, and noted at the pilot.
        tails: its last lines.
        acknowledged: ids of executed commands.

    Raises:
        NoSuchLeaseError, PilotRevokedError, LeaseEndedError: as for ``report_status``.
    """
    # Only the end of a lease may put a job back into a queue.
    with transaction.atomic(durable=True) if acknowledged else nullcontext():
        answer = _ask(
            "heartbeat",
            _HEARTBEAT,
            *_texts(match_id, of, *usage),
            *_stored(tails),
            array_of(acknowledged) if acknowledged else None,
            *_texts(settings.WMS_LEASE_S, seen_within_s(), settings.WMS_USAGE_FACTOR),
        )
        if answer.get("goes_back"):
            put_back(Match.objects.get(pk=match_id), minor=None, memo={})
    return _renewal(answer)


@_repeated_if_overtaken
def finish(
    match_id: UUID,
    *,
    of: int | None = None,
    exit_code: int | None,
    minor: str | None,
    usage: Usage,
    output_sandbox: str | None,
    output_lost: bool = False,
    tails: Tails = NO_TAILS,
    job_at_fault: bool = False,
    supervisor_died: bool = False,
) -> JobStatus:
    """End the lease with the payload's exit code: 0 Done, 222 back to the queue, else Failed; return the new status.

    A job that was killed or rescheduled keeps its status; usage, output and last lines are recorded all the same.
    Repeating it is harmless.

    Args:
        match_id, of: the lease and its pilot, as for ``report_status``.
        exit_code: of the payload; None: none (never started, or stopped by the watchdog).
        minor: the reason in words; None: derived from the exit code.
        usage, tails: of the payload over its whole life, and its last lines.
        output_sandbox: ``sha256:…`` of the archive that was uploaded for the job.
        output_lost: whether a part of the output is stored nowhere.
        job_at_fault: whether it ended because the node lacks what the job itself requires; ignored if *exit_code* shows
            that the payload has run.
        supervisor_died: whether the pilot returns the job because its process for the job died.

    Raises:
        NoSuchLeaseError, PilotRevokedError: as for ``report_status``.
        LeaseEndedError: the lease has expired, or was not ended by the pilot; nothing has changed.
        UnusableSandboxError: *output_sandbox* was not uploaded for this job; nothing has changed.
    """
    parameters = (
        *_texts(match_id, of, *_result(exit_code, minor, job_at_fault=job_at_fault, supervisor_died=supervisor_died)),
        *_texts(exit_code, *usage, output_sandbox and output_sandbox.removeprefix(SANDBOX_PREFIX), OUTPUT_SANDBOX_NAME),
        *_stored(tails),
        *_cause(match_id, exit_code, minor, tails, output_lost=output_lost),
        *_texts(seen_within_s(), settings.WMS_USAGE_FACTOR),
    )
    return _end(match_id, parameters, exit_code=exit_code, minor=minor)


def _cause(
    match_id: UUID, exit_code: int | None, minor: str | None, tails: Tails, *, output_lost: bool
) -> tuple[str | None, str | None]:
    """Return line and key of why the payload failed, or output of a good one is lost.

    A stream that is not sent is as it was stored.
    """
    if exit_code == 0 and output_lost:
        return (minor or "")[:LONGEST_LINE], LOST_OUTPUT
    if exit_code in _NO_FAILURE:
        return None, None
    std_output, std_error = tails
    if std_output is None or std_error is None:
        for stored in query_directly("stored_tails", _STORED_TAILS, str(match_id)):
            before = Tails(*(hexadecimal and decompressed(bytes.fromhex(hexadecimal)) for hexadecimal in stored))
            std_output = before.std_output if std_output is None else std_output
            std_error = before.std_error if std_error is None else std_error
    return cause_of(minor, std_error=std_error or "", std_output=std_output or "") or (None, None)


def _result(
    exit_code: int | None, minor: str | None, *, job_at_fault: bool, supervisor_died: bool
) -> tuple[str | None, str | None, str | None, bool, bool]:
    """Return status, its sources, reason, and whether job and supervisor are at fault; no status: it is given back."""
    at_fault = is_at_fault(job_at_fault=job_at_fault, exit_code=exit_code)
    if exit_code == RESCHEDULE_EXIT_CODE:
        return None, None, None, at_fault, supervisor_died
    status, reason = result_of(exit_code, minor)
    return status, _SOURCES[status], reason, at_fault, False


def _end(match_id: UUID, parameters: Sequence[str | None], *, exit_code: int | None, minor: str | None) -> JobStatus:
    gives_back = exit_code == RESCHEDULE_EXIT_CODE
    if not gives_back:
        answer = _ask("finish", _FINISH, *parameters, "false")
        if not answer.get("goes_back"):
            return _ended_with(answer, match_id, exit_code=exit_code, minor=minor)
    # Before the transaction: inside a transaction the index keeps no memo.
    memo = index.current().memo if gives_back else {}
    with transaction.atomic(durable=True):
        answer = _ask("finish", _FINISH, *parameters, "true")
        if answer.get("goes_back"):
            return put_back(Match.objects.get(pk=match_id), minor=minor, memo=memo)
        return _ended_with(answer, match_id, exit_code=exit_code, minor=minor)


def _ended_with(answer: "_Answer", match_id: UUID, *, exit_code: int | None, minor: str | None) -> JobStatus:
    status = JobStatus(answer["status"])
    if answer.get("moved"):
        tell(
            LifeEvent.JOB_ENDED,
            job=answer["job"],
            pilot=answer["pilot"],
            lease=match_id,
            status=status,
            exit_code=exit_code,
            reason=result_of(exit_code, minor)[1],
        )
    return status


def open_job(match_id: UUID) -> Job:
    """Return the job of an open lease, with its owner and VO.

    Raises:
        PilotRevokedError: the credentials of the lease's pilot were revoked.
        LeaseEndedError: the lease has ended.
    """
    return _open(Match.objects.select_related(*_FOR_DATA).get(pk=match_id)).job


@transaction_required
def locked_open_lease(match_id: UUID) -> Match:
    """Lock the job of an open lease, then the lease, and return it with job, owner, group and VO.

    Until the end of the transaction the lease is not ended, nor does the job get another status.

    Raises:
        PilotRevokedError, LeaseEndedError: as for ``open_job``.
    """
    job_id = Match.objects.values_list("job_id", flat=True).get(pk=match_id)
    Job.objects.select_for_update(of=("self",), no_key=True).get(pk=job_id)
    locked = Match.objects.select_for_update(of=("self",), no_key=True)
    return _open(locked.select_related(*_FOR_DATA, "job__group", "queue__ce").get(pk=match_id))


_FOR_DATA: Final = ("job__owner", "job__vo", "job__stored_description", "pilot")


def _open(match: Match) -> Match:
    if match.pilot.revoked_at is not None:
        raise _revoked()
    if match.ended_at is not None:
        raise _ended(match.end_reason)
    return match


class _Answer(TypedDict, total=False):
    """The answer of a report's function: what it did, or the code of a refusal with its reasons."""

    commands: list[tuple[int, str, Mapping[str, object]]] | None
    expires_at: str
    goes_back: bool
    status: str
    code: str
    end_reason: str
    #: Whether the job got the status.
    moved: bool
    job: int
    pilot: int
    target: str


def _ask(name: str, statement: str, *parameters: str | None) -> _Answer:
    """Return the answer of a report's function.

    Raises:
        WmsError: the report is refused.
    """
    ((text,),) = query_directly(name, statement, *parameters)
    if text is None:
        raise NoSuchLeaseError
    answer: _Answer = msgspec.json.decode(text)
    if "code" in answer:
        raise _refusal(answer)
    return answer


def _refusal(answer: _Answer) -> WmsError:
    match answer["code"]:
        case "pilot_revoked":
            return _revoked()
        case "lease_ended":
            return _ended(answer["end_reason"])
        case "illegal_transition":
            return transitions.illegal(answer["job"], JobStatus(answer["status"]), JobStatus(answer["target"]))
        case "too_many_changes":
            most = settings.WMS_MAX_CHANGES_PER_LEASE
            return TooManyChangesOfLeaseError(
                f"This lease has changed the minor or application status of job {answer['job']} {most:,} times, as "
                "often as it may; report only changes of its status, and send heartbeats."
            )
        case _:
            return sandboxes.no_such_output()


def _revoked() -> PilotRevokedError:
    return PilotRevokedError("The credentials of this pilot were revoked; stop the payload and leave.")


def _ended(reason: str) -> LeaseEndedError:
    return LeaseEndedError(f"This lease has ended ({reason}); stop the payload, and request another job.")


def _renewal(answer: _Answer) -> LeaseRenewal:
    given = answer.get("commands") or ()
    commands = [JobCommand(pk=pk, name=name, arguments=arguments) for pk, name, arguments in given]
    return LeaseRenewal(commands=commands, expires_at=datetime.fromisoformat(answer["expires_at"]))


def _texts(*values: object) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


def _stored(tails: Tails) -> list[str | None]:
    return [None if text is None else f"\\x{compressed(text).hex()}" for text in tails]
