"""Second factors: which users have or need one, and the check of codes."""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from allauth.account import app_settings as account_settings
from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.mfa import app_settings
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import validate_totp_code
from allauth.mfa.utils import decrypt
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from rest_framework.request import Request

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import record
from wms.accounts.services import log_in_delay
from wms.kernel.clock import current_time
from wms.kernel.errors import ForbiddenError, UnauthenticatedError
from wms.kernel.secrets import StoredSecret, UndecipherableError

logger = logging.getLogger(__name__)

#: Characters that people type into codes to make them readable.
_SPACING = re.compile(r"[\s-]+")
#: Kinds that are second factors by themselves; recovery codes only replace one.
_PROPER: Final = (Authenticator.Type.TOTP, Authenticator.Type.WEBAUTHN)
#: Field of the encrypted secret of each kind; WebAuthn stores public keys only.
_SECRET_OF: Final[Mapping[str, str]] = MappingProxyType(
    {Authenticator.Type.TOTP: "secret", Authenticator.Type.RECOVERY_CODES: "seed"}
)

#: allauth's name of a second factor in a session's authentication records.
_METHOD: Final = "mfa"
#: Session key of the time of a log-in by a provider.
_LOGGED_IN_AT: Final = "logged_in_by_provider_at"


class Requirement(StrEnum):
    """The users who need a second factor (WMS_REQUIRE_SECOND_FACTOR)."""

    NONE = "none"
    OPERATORS = "operators"
    #: Users with access to the administration, operators included.
    STAFF = "staff"


class CodeNeededError(UnauthenticatedError):
    """The password is right, but the account has a second factor and no code was given."""

    code = "code_needed"


class WrongCodeError(UnauthenticatedError):
    """The code does not belong to this account, or was used before."""

    code = "wrong_code"


class SecondFactorRequiredError(ForbiddenError):
    """The account needs a second factor and has none."""

    code = "second_factor_required"


def has_second_factor(user: User) -> bool:
    """Return whether log-ins of *user* ask for a second factor."""
    return bool(Authenticator.objects.filter(user=user, type__in=_PROPER).exists())


def needs_second_factor(user: User) -> bool:
    """Return whether *user* needs a second factor."""
    required_of = settings.WMS_REQUIRE_SECOND_FACTOR
    if required_of == Requirement.NONE:
        return False
    return user.is_operator or (required_of == Requirement.STAFF and user.is_staff)


def lacks_second_factor(user: User) -> bool:
    """Return whether *user* needs a second factor and has none."""
    return needs_second_factor(user) and not has_second_factor(user)


def has_shown_second_factor(request: HttpRequest, user: User) -> bool:
    """Return whether *user* has proved a second factor in the session of *request*."""
    return any(record["method"] == _METHOD for record in get_authentication_records(request, user))


def note_log_in_by_password(request: HttpRequest, user: User) -> None:
    """Note in the session of *request* that *user* has just typed the password; a second factor may have to follow."""
    record_authentication(request, user, "password")


def last_log_in(request: HttpRequest | Request, user: User) -> datetime | None:
    """Return when *user* last proved to be that user in the session of *request*: by a log-in, or again later."""
    times = [record["at"] for record in get_authentication_records(request, user)]
    return datetime.fromtimestamp(max(times), tz=UTC) if times else None


def is_fresh(logged_in_at: datetime | None, *, now: datetime) -> bool:
    """Return whether a log-in is fresh enough to give rights or to take them (WMS_FRESH_LOG_IN_S)."""
    return logged_in_at is not None and now - logged_in_at <= timedelta(seconds=settings.WMS_FRESH_LOG_IN_S)


def note_log_in_by_provider(request: HttpRequest, *, now: datetime) -> None:
    """Note in the session of *request* that a provider has just authenticated its user."""
    request.session[_LOGGED_IN_AT] = now.timestamp()


def must_log_in_again(request: HttpRequest, user: User, *, now: datetime) -> bool:
    """Return whether *user* must log in again before a sensitive action.

    Those who log in by a provider only have neither password nor second factor to be asked for, and allauth lets them
    pass: whoever has their session would add a factor, or an account at a provider, of their own.
    """
    if get_reauthentication_flows(user):
        return False
    since_s = now.timestamp() - request.session.get(_LOGGED_IN_AT, 0.0)
    return bool(since_s >= account_settings.REAUTHENTICATION_TIMEOUT)


def prove_second_factor(user: User, code: str, *, device: str, now: datetime) -> None:
    """Return if *user*, whose password was right, may have a token without the portal.

    Args:
        user: the caller.
        code: as typed; empty: none.
        device: a client that the user has logged in with before; empty: none known.
        now: for the log-in delay.

    Raises:
        CodeNeededError, WrongCodeError: the account has a second factor.
        SecondFactorRequiredError: it has none but needs one.
        TooManyFailuresError: too many wrong codes.
    """
    if lacks_second_factor(user):
        raise SecondFactorRequiredError("Your account must have a second factor; log in to the portal to set one up.")
    if not has_second_factor(user):
        return
    if not code:
        sentence = "This account has a second factor: send its code as `code`, or make a token on the portal's pages."
        raise CodeNeededError(sentence)
    use_code(user, code, device=device, now=now)


def use_code(user: User, code: str, *, device: str, now: datetime) -> Authenticator:
    """Return the second factor of *user* that *code* belongs to; the code cannot be used again.

    Args:
        user: the account.
        code: of an app (TOTP) or a recovery code, as typed.
        device: a browser that the user has logged in with before; empty: none known.
        now: for the log-in delay.

    Raises:
        WrongCodeError: it belongs to none, or was used before.
        TooManyFailuresError: too many wrong codes; this one was not checked.
    """
    attempt = log_in_delay.begin(log_in_delay.attempt_of_code(user, device=device), now=now)
    digits = _SPACING.sub("", code)
    authenticator = _authenticator_of(user, digits, now=now) if digits.isascii() and digits.isdecimal() else None
    if authenticator is None:
        record(SecurityEventKind.SECOND_FACTOR_REFUSED, actor=user)
        raise WrongCodeError("The code is wrong or was used before.")
    log_in_delay.succeeded(attempt)
    return authenticator


def mark_used(authenticator: Authenticator, code: str, *, now: datetime) -> bool:
    """Store that *code* of an app was used; return False if it was used before.

    Not in a cache, as in allauth: each process would have its own.
    """
    digest = sha256(f"{authenticator.pk} {_SPACING.sub('', code)}".encode()).hexdigest()
    # A code is accepted for this many seconds: its own time step and the tolerated ones before and after.
    valid_s = app_settings.TOTP_PERIOD * (2 * app_settings.TOTP_TOLERANCE + 1)
    with transaction.atomic():
        locked = Authenticator.objects.select_for_update().get(pk=authenticator.pk)
        used = {each: at for each, at in locked.data.get("used", {}).items() if at > now.timestamp() - valid_s}
        if digest in used:
            return False
        locked.data["used"] = {**used, digest: now.timestamp()}
        locked.save(update_fields=["data"])
    return True


def on_added(*, request: HttpRequest, user: User, authenticator: Authenticator, **_kwargs: object) -> None:
    """Record a new second factor; the code that confirmed it cannot be used again."""
    record(SecurityEventKind.SECOND_FACTOR_ADDED, request=request, target=_target(user), type=authenticator.type)
    if authenticator.type in _PROPER:
        record_authentication(request, user, _METHOD, id=authenticator.pk, type=authenticator.type)
    if authenticator.type == Authenticator.Type.TOTP:
        mark_used(authenticator, str(request.POST.get("code", "")), now=current_time())


def on_used(*, request: HttpRequest, user: User, authenticator: Authenticator, **_kwargs: object) -> None:
    """Record the use of a second factor in the portal."""
    kind = SecurityEventKind.SECOND_FACTOR_ACCEPTED
    record(kind, request=request, actor=user, target=_target(user), type=authenticator.type)


def on_removed(*, request: HttpRequest, user: User, authenticator: Authenticator, **_kwargs: object) -> None:
    """Record the removal of a second factor."""
    record(SecurityEventKind.SECOND_FACTOR_REMOVED, request=request, target=_target(user), type=authenticator.type)


def stored_secrets(*, locked: bool) -> Iterator[StoredSecret]:
    """Yield the secrets of apps and recovery codes, to re-encrypt them."""
    rows = Authenticator.objects.filter(type__in=_SECRET_OF).select_related("user").order_by("pk")
    for row in rows.select_for_update(of=("self",)) if locked else rows:
        field = _SECRET_OF[row.type]
        yield StoredSecret(
            name=f"second factor ({row.type}) of user {row.user.username}",
            encrypted=row.data[field].encode(),
            replace=partial(_replace_secret, row, field),
        )


def _replace_secret(row: Authenticator, field: str, encrypted: bytes) -> None:
    row.data[field] = encrypted.decode("ascii")
    row.save(update_fields=["data"])


def reset_second_factors(users: Sequence[User]) -> int:
    """Remove all second factors of *users*, who then log in by password alone; return how many users had one."""
    reset = 0
    for user in users:
        with transaction.atomic():
            removed, _ = Authenticator.objects.filter(user=user).delete()
            if removed:
                reset += 1
                record(SecurityEventKind.SECOND_FACTOR_REMOVED, target=_target(user), reset=True)
    return reset


def _target(user: User) -> str:
    return f"user {user.username}"


def _authenticator_of(user: User, code: str, *, now: datetime) -> Authenticator | None:
    for authenticator in Authenticator.objects.filter(user=user).exclude(type=Authenticator.Type.WEBAUTHN):
        if _is_code_of(authenticator, code, now=now):
            return authenticator
    return None


def _is_code_of(authenticator: Authenticator, code: str, *, now: datetime) -> bool:
    try:
        if authenticator.type == Authenticator.Type.RECOVERY_CODES:
            return bool(authenticator.wrap().validate_code(code))
        secret = decrypt(authenticator.data["secret"])
    except UndecipherableError:
        logger.exception("second_factor.unreadable", extra={"user_id": authenticator.user_id})
        return False
    return validate_totp_code(secret, code) and mark_used(authenticator, code, now=now)
