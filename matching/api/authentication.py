"""Authentication by the token of a lease, and the renewal of tokens in the answers to reports."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rest_framework.exceptions import AuthenticationFailed

from matching.services import job_tokens
from pilots.api.authentication import PilotCredential
from pilots.services import tokens as pilot_tokens
from wms.kernel.clock import current_time
from wms.kernel.rest import BearerAuthentication
from wms.kernel.tokens import PREFIXES, InvalidTokenError, TokenKind, read
from wms.wire.protocol import API_V1


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCredential:
    """The credential of a match's token: this one lease."""

    match_id: UUID
    job_id: int
    expires_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPrincipal:
    """The principal of a job token."""

    match_id: UUID
    is_authenticated: bool = True
    is_active: bool = True

    def __str__(self) -> str:
        return f"match {self.match_id}"


class JobTokenAuthentication(BearerAuthentication):
    """Bearer tokens of leases; the signature is checked without a query."""

    prefix = PREFIXES[TokenKind.JOB]
    scheme_name = "JobToken"
    scheme_description = f"Token of one lease, as answered by POST {API_V1}matches/."

    def principal_of(self, token: str) -> tuple[JobPrincipal, JobCredential]:
        """Return the lease of *token*."""
        try:
            signed = read(TokenKind.JOB, token)
        except InvalidTokenError as error:
            sentence = f"{error} Stop the payload, and request another job."
            raise AuthenticationFailed(sentence, code="invalid_token") from error
        match_id = UUID(str(signed.claims["match"]))
        credential = JobCredential(match_id=match_id, job_id=int(signed.claims["job"]), expires_at=signed.expires_at)
        return JobPrincipal(match_id=match_id), credential


def renewed_token(credential: object, match_id: UUID) -> str | None:
    """Return a new token of the kind used for a report, if less than half of that token's lifetime is left."""
    now = current_time()
    if isinstance(credential, PilotCredential):
        return pilot_tokens.renewed_token(credential, now=now)
    if isinstance(credential, JobCredential) and job_tokens.is_due(credential.expires_at, now=now):
        return job_tokens.issue(match_id, job_id=credential.job_id, now=now)
    return None
