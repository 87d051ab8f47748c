"""Authentication of pilots: by the signed token of one pilot, or by a director's secret at its registration."""

from dataclasses import dataclass

from rest_framework.exceptions import AuthenticationFailed

from pilots.domain.pilot import PILOT_SECRET_PREFIX, PilotCredential, SecretCredential
from pilots.services.secrets import secret_credential
from pilots.services.tokens import credential_of
from wms.kernel.clock import current_time
from wms.kernel.rest import BearerAuthentication
from wms.kernel.tokens import PREFIXES, InvalidTokenError, TokenKind
from wms.wire.protocol import API_V1

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

    Whether the pilot is revoked or has ended is checked where its row is read.
    """

    prefix = PREFIXES[TokenKind.PILOT]
    scheme_name = "PilotToken"
    scheme_description = f"Token of one pilot, from POST {API_V1}pilots/register/ or `wms-server pilot_token`."

    def principal_of(self, token: str) -> tuple[PilotPrincipal, PilotCredential]:
        """Return the pilot of *token*.

        Raises:
            AuthenticationFailed: the token was not signed here, or has expired.
        """
        try:
            credential = credential_of(token)
        except InvalidTokenError as error:
            raise AuthenticationFailed(f"{error} Register again.", code="invalid_token") from error
        return PilotPrincipal(pilot_id=credential.pilot_id), credential


class PilotSecretAuthentication(BearerAuthentication):
    """Single-use secrets of pilots, looked up by their SHA-256; they are valid for the registration only."""

    prefix = PILOT_SECRET_PREFIX
    scheme_name = "PilotSecret"
    scheme_description = "Single-use secret that a director gives to the pilot that it sends."

    def principal_of(self, token: str) -> tuple[PilotPrincipal, SecretCredential]:
        """Return the pilot of the secret.

        Raises:
            AuthenticationFailed: the secret is unknown here, or has expired.
        """
        credential = secret_credential(token, now=current_time())
        if credential is None:
            raise AuthenticationFailed("This secret of a pilot is unknown or has expired; leave.", code="invalid_token")
        return PilotPrincipal(pilot_id=credential.pilot_id), credential
