"""Passwords: a one-time link by which a user sets one, so that nobody else needs to know it."""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from wms.accounts.domain import SecurityEventKind, digest_of
from wms.accounts.models import PasswordLink, User
from wms.accounts.security_log import record
from wms.accounts.services.access import SuspendedError
from wms.kernel.errors import NotFoundError


class LinkOverError(NotFoundError):
    """The link is used, expired, replaced by a newer one or unknown; the answer does not say which."""

    code = "link_over"


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedLink:
    """A new link; the only place where its secret exists in clear."""

    secret: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"IssuedLink(expires_at={self.expires_at!r})"  # never the secret: it would reach logs


@transaction.atomic
def issue_password_link(user: User, *, now: datetime) -> IssuedLink:
    """Return a new link for *user*, valid for WMS_PASSWORD_LINK_S; it replaces an older one.

    Raises:
        SuspendedError: the user is suspended.
    """
    # Locked, like everything that concerns credentials: a suspension comes before or after, never in between.
    if not User.objects.select_for_update(no_key=True).get(pk=user.pk).is_active:
        raise SuspendedError(f"{user.username} is suspended and gets no link.")
    link = IssuedLink(
        secret=secrets.token_urlsafe(32), expires_at=now + timedelta(seconds=settings.WMS_PASSWORD_LINK_S)
    )
    values = {"digest": digest_of(link.secret), "created_at": now, "expires_at": link.expires_at}
    PasswordLink.objects.update_or_create(user=user, defaults=values)
    kind = SecurityEventKind.PASSWORD_LINK_ISSUED
    record(kind, target=f"user {user.username}", row=user, expires_at=link.expires_at)
    return link


def user_of_link(secret: str, *, now: datetime) -> User:
    """Return the user who may set a password by this link.

    Raises:
        LinkOverError: the link is not valid.
    """
    users = User.objects.filter(
        is_active=True, password_link__digest=digest_of(secret), password_link__expires_at__gt=now
    )
    user = users.first()
    if user is None:
        raise LinkOverError("This link was used already, or has expired; ask an operator for a new one.")
    return user


@transaction.atomic
def set_password_by_link(secret: str, *, password: str, now: datetime) -> User:
    """Set the password of the user of this link, which expires, and return the user.

    The form checks the strength of the password.

    Raises:
        LinkOverError: as for ``user_of_link``.
    """
    User.objects.select_for_update(no_key=True).get(pk=user_of_link(secret, now=now).pk)
    user = user_of_link(secret, now=now)  # again: it may have been used before the row was locked
    user.set_password(password)
    user.save(update_fields=["password"])
    record(SecurityEventKind.PASSWORD_CHANGED, actor=user, target=f"user {user.username}", by="one-time link")
    return user
