"""Tokens of leases: each grants access to one match and the sandboxes of its job only (PIL §3.1)."""

from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings

from wms.kernel.tokens import TokenKind, sign


def issue(match_id: UUID, *, job_id: int, now: datetime) -> str:
    """Return a token for a lease on a job.

    It outlives the lease on purpose: a pilot that returns late must learn that its lease has ended (409), not that it
    is unknown (401). Access is decided by the lease.
    """
    lifetime = timedelta(seconds=settings.WMS_JOB_TOKEN_S)
    return sign(TokenKind.JOB, {"match": str(match_id), "job": job_id}, expires_at=now + lifetime)


def is_due(expires_at: datetime, *, now: datetime) -> bool:
    """Return whether less than half of a token's lifetime is left: then answers to reports contain a new one."""
    return expires_at - now < timedelta(seconds=settings.WMS_JOB_TOKEN_S) / 2
