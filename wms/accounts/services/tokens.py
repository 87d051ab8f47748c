"""Bearer tokens of users: issue, use, revocation."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from wms.accounts.domain import LAST_USE_STEP, USER_TOKEN_PREFIX, SecurityEventKind, TokenScope, digest_of
from wms.accounts.models import ApiToken, User
from wms.accounts.security_log import record
from wms.accounts.services.access import SuspendedError, WrongCredentialsError, take_changes
from wms.accounts.services.people import WAITING, WaitingError, is_waiting
from wms.accounts.sql import Bearer
from wms.kernel.errors import ConflictError, NotFoundError


class TooManyTokensError(ConflictError):
    """The user has as many tokens as allowed."""

    code = "too_many_tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedToken:
    """A new token; the only place where it exists in clear."""

    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"IssuedToken(expires_at={self.expires_at!r})"  # never the token: it would reach logs


@transaction.atomic(durable=True)
def issue_token(
    user: User,
    *,
    now: datetime,
    scope: TokenScope = TokenScope.MANAGE,
    name: str = "",
    lifetime: timedelta | None = None,
) -> IssuedToken:
    """Return a new bearer token of *user*, and remove those that are no longer valid.

    Args:
        user: as read when the password or the session was checked.
        now: start of the token's validity.
        scope: rights of the token.
        name: chosen by the user, at most 100 characters.
        lifetime: None: WMS_USER_TOKEN_S.

    Raises:
        SuspendedError: the user is suspended.
        WaitingError: no manager has admitted the user yet.
        WrongCredentialsError: the password was changed since it was checked.
        TooManyTokensError: the user has WMS_MAX_TOKENS_PER_USER.
        RateExceededError: the user has changed as much as is allowed in this minute.
    """
    take_changes(1, by=user)
    _lock_or_refuse(user, now=now)
    # Revoked ones too: a user who makes and revokes tokens in turns would add a row each time.
    own = ApiToken.objects.filter(user=user)
    own.filter(Q(expires_at__lte=now) | Q(revoked_at__isnull=False)).delete()
    if 0 < settings.WMS_MAX_TOKENS_PER_USER <= own.count():
        raise TooManyTokensError(
            f"You have {settings.WMS_MAX_TOKENS_PER_USER:,} tokens, as many as a user may have; revoke those that you "
            "no longer need, on the page of your tokens."
        )
    issued = IssuedToken(
        token=USER_TOKEN_PREFIX + secrets.token_urlsafe(32),
        expires_at=now + (timedelta(seconds=settings.WMS_USER_TOKEN_S) if lifetime is None else lifetime),
    )
    ApiToken.objects.create(
        user=user,
        digest=digest_of(issued.token),
        scope=scope,
        name=name,
        created_at=now,
        expires_at=issued.expires_at,
    )
    target, expires_at = f"user {user.username}", issued.expires_at
    record(SecurityEventKind.TOKEN_ISSUED, target=target, expires_at=expires_at, scope=scope, name=name)
    return issued


def _lock_or_refuse(user: User, *, now: datetime) -> None:
    """Lock the user's row; raise the errors of ``issue_token``.

    So a change of the password, which revokes all tokens, comes before or after, never in between.
    """
    current = User.objects.select_for_update(no_key=True).filter(pk=user.pk).first()
    if current is None or current.password != user.password:
        raise WrongCredentialsError("The password was changed a moment ago; log in again.")
    if not current.is_active:
        raise SuspendedError(f"{user.username} is suspended and gets no token.")
    if is_waiting(current, now=now):
        raise WaitingError(WAITING)


def note_use(bearer: Bearer, *, now: datetime) -> None:
    """Store the last use of the token, at most once in LAST_USE_STEP."""
    if bearer.last_used_at is not None and bearer.last_used_at > now - LAST_USE_STEP:
        return
    before = Q(last_used_at__isnull=True) | Q(last_used_at__lte=now - LAST_USE_STEP)
    ApiToken.objects.filter(before, pk=bearer.token_id).update(last_used_at=now)


def revoke_token(*, token_id: int, now: datetime) -> None:
    """Revoke the token; one already revoked is unchanged."""
    with transaction.atomic():
        token = ApiToken.objects.select_for_update(of=("self",)).select_related("user").filter(pk=token_id).first()
        if token is None or token.revoked_at is not None:
            return
        ApiToken.objects.filter(pk=token_id).update(revoked_at=now)
        record(SecurityEventKind.TOKEN_REVOKED, target=f"user {token.user.username}", token_id=token_id)


def revoke_visible_token(*, token_id: int, by: User, now: datetime) -> None:
    """Revoke a valid token: *by*'s own, for an operator any user's.

    Raises:
        NotFoundError: there is no such token, or it is not visible to *by*.
    """
    tokens = ApiToken.objects.live(now=now)
    if not (tokens if by.is_operator else tokens.filter(user=by)).filter(pk=token_id).exists():
        raise NotFoundError(f"There is no token {token_id}.")
    revoke_token(token_id=token_id, now=now)


def revoke_tokens_of(user: User, *, now: datetime) -> int:
    """Revoke every token of *user* and return their number."""
    with transaction.atomic():
        revoked = ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
        record(SecurityEventKind.TOKEN_REVOKED, target=f"user {user.username}", tokens=revoked)
    return revoked
