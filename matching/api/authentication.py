"""Authentication by the token of a match, which authorizes work on its lease."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from rest_framework.exceptions import AuthenticationFailed

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
