"""Bearer tokens of users: issued, revoked."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from wms.accounts.domain import USER_TOKEN_PREFIX, SecurityEventKind, digest_of
from wms.accounts.models import ApiToken, User
from wms.accounts.security_log import record
from wms.kernel.errors import ForbiddenError


class SuspendedError(ForbiddenError):
    """The user is suspended."""

    code = "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A new token; the only place where it exists in clear."""

    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"IssuedToken(expires_at={self.expires_at!r})"  # never the token: it would reach logs


@transaction.atomic(durable=True)
def issue_token(user: User, *, now: datetime) -> IssuedToken:
    """Return a new bearer token of *user*, valid for WMS_USER_TOKEN_S; tokens that have expired are removed.

    Raises:
        SuspendedError: the user is suspended.
    """
    if not user.is_active:
        raise SuspendedError(f"{user.username} is suspended and gets no token.")
    ApiToken.objects.filter(user=user, expires_at__lte=now).delete()
    issued = IssuedToken(
        token=USER_TOKEN_PREFIX + secrets.token_urlsafe(32),
        expires_at=now + timedelta(seconds=settings.WMS_USER_TOKEN_S),
    )
    ApiToken.objects.create(user=user, digest=digest_of(issued.token), created_at=now, expires_at=issued.expires_at)
    record(SecurityEventKind.TOKEN_ISSUED, target=f"user {user.username}", expires_at=issued.expires_at)
    return issued


def revoke_token(*, token_id: int, now: datetime) -> None:
    """Make the token open nothing from now on; a token already revoked stays as it is."""
    with transaction.atomic():
        token = ApiToken.objects.select_for_update(of=("self",)).select_related("user").filter(pk=token_id).first()
        if token is None or token.revoked_at is not None:
            return
        ApiToken.objects.filter(pk=token_id).update(revoked_at=now)
        record(SecurityEventKind.TOKEN_REVOKED, target=f"user {token.user.username}", token_id=token_id)


def revoke_tokens_of(user: User, *, now: datetime) -> int:
    """Revoke every token of *user* and return how many."""
    with transaction.atomic():
        revoked = ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
        record(SecurityEventKind.TOKEN_REVOKED, target=f"user {user.username}", tokens=revoked)
    return revoked
