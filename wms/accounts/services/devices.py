"""Known devices, that a user has logged in with before, and devices that wait: recognised by signed cookies."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Final

from django.conf import settings
from django.core import signing
from django.http import HttpResponse

from wms.accounts.domain import DEVICE_WAIT, DEVICE_WAIT_AGE, WAITED_DEVICE_PREFIX, digest_of
from wms.accounts.models import User

#: Time after a log-in for which a device stays known.
DEVICE_COOKIE_AGE: Final = timedelta(days=400)
_SALT: Final = "wms.accounts.devices"
_SALT_OF_WAITING: Final = "wms.accounts.devices.waiting"


def device_cookie_name(username: str) -> str:
    """Return the name of the cookie of *username*; several people may share a browser."""
    return f"wms_device_{digest_of(username).hex()[:16]}"


def device_cookie(user: User) -> str:
    """Return a new value of the cookie: it grants no access, and a change of the password makes it invalid."""
    return signing.dumps([user.pk, secrets.token_hex(16), _password_mark(user)], salt=_SALT)


def remember_device(response: HttpResponse, user: User, *, path: str) -> None:
    """Set the cookie by which this client is known at its next log-in.

    Args:
        response: to the log-in.
        user: fully logged in, with a second factor if there is one.
        path: below which the client logs in.
    """
    response.set_cookie(
        device_cookie_name(user.username),
        device_cookie(user),
        max_age=DEVICE_COOKIE_AGE,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def known_device(cookies: Mapping[str, str], *, username: str) -> str:
    """Return the id of the device from *cookies*, or "" if *username* never logged in with it."""
    value = cookies.get(device_cookie_name(username))
    if not value:
        return ""
    try:
        pk, device, mark = signing.loads(value, salt=_SALT, max_age=DEVICE_COOKIE_AGE)
    except (signing.BadSignature, ValueError):
        return ""
    user = User.objects.filter(pk=pk, username=username).first()
    return str(device) if user is not None and secrets.compare_digest(mark, _password_mark(user)) else ""


def let_device_wait(
    response: HttpResponse, cookies: Mapping[str, str], *, username: str, path: str, now: datetime
) -> None:
    """Set the cookie with which this client, whose log-in was delayed, need only wait for ``DEVICE_WAIT``.

    Args:
        response: the refusal.
        cookies: of the request; a client that waits already keeps its cookie.
        username: as typed.
        path: below which the client logs in.
        now: start of the wait.
    """
    waiting_since = _waiting(cookies, username=username)[1]
    if waiting_since is not None and now - waiting_since < DEVICE_WAIT:
        return
    device = WAITED_DEVICE_PREFIX + secrets.token_hex(15)
    response.set_cookie(
        waiting_cookie_name(username),
        signing.dumps([digest_of(username).hex(), device, now.timestamp()], salt=_SALT_OF_WAITING),
        max_age=DEVICE_WAIT_AGE,
        path=path,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


def waited_device(cookies: Mapping[str, str], *, username: str, now: datetime) -> str:
    """Return the id of the device from *cookies* if it has waited as long as a delayed log-in has to, or ""."""
    device, since = _waiting(cookies, username=username)
    return device if since is not None and DEVICE_WAIT <= now - since < DEVICE_WAIT_AGE else ""


def _waiting(cookies: Mapping[str, str], *, username: str) -> tuple[str, datetime | None]:
    try:
        digest, device, since = signing.loads(cookies.get(waiting_cookie_name(username), ""), salt=_SALT_OF_WAITING)
    except (signing.BadSignature, ValueError):
        return "", None
    if digest != digest_of(username).hex():
        return "", None
    return device, datetime.fromtimestamp(since, tz=UTC)


def waiting_cookie_name(username: str) -> str:
    """Return the name of the cookie of a device that waits to log in as *username*."""
    return f"wms_wait_{digest_of(username).hex()[:16]}"


def _password_mark(user: User) -> str:
    # Of the salted hash, so that it reveals nothing about the password.
    return sha256(f"{_SALT} {user.password}".encode()).hexdigest()[:32]
