"""Data of an attempt that reports on its lease bring: last lines of output, and samples of usage over time (ADR 63)."""

from datetime import datetime
from typing import Final

from wms.jobs.models import Job, OutputTail
from wms.kernel.db import transaction_required
from wms.kernel.fast.statements import ask_directly
from wms.kernel.fields import compressed
from wms.wire.protocol import Tails, Usage

_SAMPLE: Final = (
    "SELECT wms_sample_usage($1::bigint, $2::smallint, $3::timestamptz, $4::timestamptz, $5::timestamptz, "
    "$6::float8, $7::float8, $8::float8)::text"
)


def stored_texts(tails: Tails) -> list[str | None]:
    """Return last lines as PostgreSQL's texts of their stored form."""
    return [None if text is None else f"\\x{compressed(text).hex()}" for text in tails]


@transaction_required
def store_tails(job: Job, tails: Tails) -> None:
    """Store last lines of the present attempt of a job, which is locked."""
    if not (lines := tails.as_record()):
        return
    OutputTail.objects.bulk_create(
        [OutputTail(job=job, attempt=job.attempt, **lines)],
        update_conflicts=True,
        unique_fields=["job", "attempt"],
        update_fields=list(lines),
    )


@transaction_required
def sample_usage(job: Job, usage: Usage, *, reported_at: datetime | None, now: datetime) -> None:
    """Add a sample of the usage to those of the present attempt if one is due (``sql/attempts.sql``).

    Args:
        job: locked.
        usage: of its payload so far.
        reported_at: time of the report before this one.
        now: by the database's clock.
    """
    moments = (None if moment is None else moment.isoformat() for moment in (job.started_at, reported_at, now))
    measured = (None if value is None else repr(value) for value in (usage.cpu_s, usage.memory_mb, usage.disk_mb))
    ask_directly("sample_usage", _SAMPLE, str(job.pk), str(job.attempt), *moments, *measured)
