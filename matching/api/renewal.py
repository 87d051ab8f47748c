"""Renewal of tokens, in the answers to reports."""

from uuid import UUID

from django.utils import timezone

from matching.api.authentication import JobCredential
from matching.services import job_tokens
from pilots.api.authentication import PilotCredential
from pilots.services import tokens as pilot_tokens


def renewed_token(credential: object, match_id: UUID) -> str | None:
    """Return a new token of the kind used for a report, if less than half of that token's lifetime is left."""
    now = timezone.now()
    if isinstance(credential, PilotCredential):
        return pilot_tokens.renewed_token(credential, now=now)
    if isinstance(credential, JobCredential) and job_tokens.is_due(credential.expires_at, now=now):
        return job_tokens.issue(match_id, job_id=credential.job_id, now=now)
    return None
