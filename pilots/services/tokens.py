"""Signed tokens of pilots, valid for WMS_PILOT_TOKEN_S and renewed by reports."""

from datetime import datetime, timedelta

from django.conf import settings

from pilots.domain.pilot import PilotCredential
from pilots.models import Pilot
from wms.accounts.services import IssuedToken
from wms.kernel.tokens import InvalidTokenError, TokenKind, read, sign

_CLAIM = "pilot"


def issue_pilot_token(pilot: Pilot, *, now: datetime, lifetime: timedelta | None = None) -> IssuedToken:
    """Return a token of *pilot*, valid for *lifetime*, by default WMS_PILOT_TOKEN_S."""
    return _issue(pilot.pk, expires_at=now + (lifetime or _lifetime()))


def credential_of(token: str) -> PilotCredential:
    """Return the credential in *token*, without a query; revocation is checked where the pilot's row is read.

    Raises:
        InvalidTokenError: it is no pilot token, was not signed here, or has expired.
    """
    signed = read(TokenKind.PILOT, token)
    pilot_id = signed.claims.get(_CLAIM)
    if not isinstance(pilot_id, int):
        raise InvalidTokenError("The pilot token names no pilot.")
    return PilotCredential(pilot_id=pilot_id, expires_at=signed.expires_at)


def renewed_token(credential: PilotCredential, *, now: datetime) -> str | None:
    """Return a new token if less than half of the lifetime is left and the pilot lives, else None.

    An ended pilot may still have a lease for some seconds and report on it; it must not get a token.
    """
    if credential.expires_at - now >= _lifetime() / 2:
        return None
    if not Pilot.objects.filter(pk=credential.pilot_id, ended_at__isnull=True, revoked_at__isnull=True).exists():
        return None
    return _issue(credential.pilot_id, expires_at=now + _lifetime()).token


def _lifetime() -> timedelta:
    return timedelta(seconds=settings.WMS_PILOT_TOKEN_S)


def _issue(pilot_id: int, *, expires_at: datetime) -> IssuedToken:
    # The token stores whole seconds; the expiry in the response must not be later.
    expires_at = expires_at.replace(microsecond=0)
    return IssuedToken(token=sign(TokenKind.PILOT, {_CLAIM: pilot_id}, expires_at=expires_at), expires_at=expires_at)
