"""Ordinary reports of pilots on leases: each is one statement, with functions of the database (``matching/sql``)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import DatabaseError
from psycopg.errors import NoDataFound

from matching.services import attempts
from matching.services.lease_ends import EndReason, is_at_fault, result_of
from matching.services.signs_of_life import seen_within_s
from wms.jobs.domain.lifecycle import LEASED, JobStatus, sources_of
from wms.jobs.models import JobCommand
from wms.kernel.db import array_of
from wms.kernel.fast.statements import ask_directly
from wms.wire.protocol import OUTPUT_SANDBOX_NAME, SANDBOX_PREFIX, Tails, Usage

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRenewal:
    """The answer to a report: the commands not yet acknowledged, and the end of the lease."""

    commands: Sequence[JobCommand]
    expires_at: datetime


def report_ordinary_status(
    match_id: UUID, *, status: JobStatus, minor: str | None, application: str | None
) -> LeaseRenewal | None:
    """Process an ordinary status report in one round trip to the database (``sql/reports.sql``).

    The arguments are those of ``leases.report_status``.

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

    The arguments are those of ``leases.finish``; the exit code is not that of a request for rescheduling.

    Returns:
        The new status of the job. None if more is to be done, or the end must be refused: nothing has changed.
    """
    status, reason = result_of(exit_code, minor)
    rows = _ask_unless_it_ends(
        "end_lease",
        _END,
        str(match_id),
        status,
        _SOURCES[status],
        reason,
        EndReason.FINISHED,
        str(is_at_fault(job_at_fault=job_at_fault, exit_code=exit_code)),
        *(None if value is None else repr(value) for value in (exit_code, *usage)),
        None if output_sandbox is None else output_sandbox.removeprefix(SANDBOX_PREFIX),
        OUTPUT_SANDBOX_NAME,
        *attempts.stored_texts(tails),
        repr(seen_within_s()),
    )
    return status if rows == [("true",)] else None


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
