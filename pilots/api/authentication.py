"""How pilots are recognised: by a signed token that names one pilot, and before that by their director's secret."""

from dataclasses import dataclass

from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed

from pilots.domain.pilot import PILOT_SECRET_PREFIX, PilotCredential, SecretCredential
from pilots.services.secrets import secret_credential
from pilots.services.tokens import credential_of
from wms.kernel.rest import BearerAuthentication
from wms.kernel.tokens import PREFIXES, InvalidTokenError, TokenKind

__all__ = ["PilotCredential", "PilotPrincipal", "PilotSecretAuthentication", "PilotTokenAuthentication"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotPrincipal:
    """The principal of a pilot's token or secret."""

    pilot_id: int
    is_authenticated: bool = True
    is_active: bool = True

    def __str__(self) -> str:
        return f"pilot {self.pilot_id}"


class PilotTokenAuthentication(BearerAuthentication):
    """Bearer tokens of pilots; the signature is checked without a query.

    Whether the pilot is revoked or ended is seen where its row is read anyway.
    """

    prefix = PREFIXES[TokenKind.PILOT]
    scheme_name = "PilotToken"
    scheme_description = "Token of one pilot, from POST /api/pilots/register/ or `manage.py pilot_token`."

    def principal_of(self, token: str) -> tuple[PilotPrincipal, PilotCredential]:
        """Return the pilot that *token* names.

        Raises:
            AuthenticationFailed: it was not signed here, or has expired.
        """
        try:
            credential = credential_of(token)
        except InvalidTokenError as error:
            raise AuthenticationFailed(f"{error} Register again.", code="invalid_token") from error
        return PilotPrincipal(pilot_id=credential.pilot_id), credential


class PilotSecretAuthentication(BearerAuthentication):
    """Single-use secrets of pilots, looked up by their SHA-256; they open nothing but the registration."""

    prefix = PILOT_SECRET_PREFIX
    scheme_name = "PilotSecret"
    scheme_description = "Single-use secret that a director hands over to the pilot that it sends."

    def principal_of(self, token: str) -> tuple[PilotPrincipal, SecretCredential]:
        """Return the pilot that the secret was made for.

        Raises:
            AuthenticationFailed: it was not made here, or has expired.
        """
        credential = secret_credential(token, now=timezone.now())
        if credential is None:
            raise AuthenticationFailed("This secret of a pilot is unknown or has expired; leave.", code="invalid_token")
        return PilotPrincipal(pilot_id=credential.pilot_id), credential
