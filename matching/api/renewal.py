"""New tokens for old ones, in the answers to reports."""

from uuid import UUID

from django.utils import timezone
from rest_framework.request import Request

from matching.api.authentication import JobCredential
from matching.services import job_tokens
from pilots.api.authentication import PilotCredential
from pilots.services import tokens as pilot_tokens


def renewed_token(request: Request, match_id: UUID) -> str | None:
    """Return a token of the kind that the request came with, when less than half of that one's life is left."""
    now = timezone.now()
    if isinstance(request.auth, PilotCredential):
        return pilot_tokens.renewed_token(request.auth, now=now)
    if isinstance(request.auth, JobCredential) and job_tokens.is_due(request.auth.expires_at, now=now):
        return job_tokens.issue(match_id, job_id=request.auth.job_id, now=now)
    return None
