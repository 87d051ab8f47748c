"""Log-in without a browser on the same machine: the device flow of a provider, for `wms login --oidc`.

This server asks the provider; the client sees neither its codes nor its tokens, so there is no ID token to replay.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from django.core.cache import caches
from redis.exceptions import RedisError

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.oidc import device
from wms.accounts.oidc.configuration import OIDCProvider, providers
from wms.accounts.oidc.device import DeviceLogIn, DeviceLogInOverError, Instructions
from wms.accounts.oidc.id_tokens import ProviderTokenRefusedError
from wms.accounts.oidc.identity import ProviderIdentity
from wms.accounts.security_log import record
from wms.accounts.services import log_in_delay
from wms.accounts.services.people import log_in_by_provider
from wms.accounts.services.second_factors import CodeNeededError, has_second_factor, prove_second_factor
from wms.kernel.errors import NotFoundError
from wms.kernel.rates import CACHE

logger = logging.getLogger(__name__)

#: Time for the code of a second factor after the log-in at the provider.
_TIME_FOR_CODE: Final = timedelta(minutes=5)
#: Least seconds between two questions to a provider about one log-in, whatever the client does.
_LEAST_INTERVAL_S: Final = 1
_VERIFIED: Final = "verified"


class NoProviderError(NotFoundError):
    """No provider of this name is configured."""

    code = "no_provider"


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunLogIn:
    """A log-in that waits for its person: the client's name of it, and what to show."""

    handle: str
    expires_at: datetime
    instructions: Instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedLogIn:
    """A log-in that is not complete.

    Args:
        handle: the client's name of it from now on.
        expires_at: its end.
        slow_down: the client must wait 5 s longer between its questions (RFC 8628, §3.5).
        code_needed: the person must give the code of the second factor.
    """

    handle: str
    expires_at: datetime
    slow_down: bool = False
    code_needed: bool = False


def provider_by_id(provider_id: str) -> OIDCProvider:
    """Return the configured provider.

    Raises:
        NoProviderError: there is none of this id.
    """
    provider = providers().get(provider_id)
    if provider is None:
        raise NoProviderError("There is no such provider.")
    return provider


def begin_device_log_in(provider: OIDCProvider, *, address: str, now: datetime) -> BegunLogIn:
    """Begin a log-in at *provider* by the device flow.

    Raises:
        NoDeviceFlowError: the provider offers none.
        ProviderFailedError: it does not answer.
        TooManyFailuresError: too many log-ins from this address did not succeed.
    """
    log_in_delay.remove_old_failures(now=now)
    attempt = log_in_delay.begin(log_in_delay.attempt_by_provider(provider.id, address=address), now=now)
    log_in, instructions = device.begin(provider, attempt=attempt, now=now)
    return BegunLogIn(handle=log_in.handle(), expires_at=log_in.expires_at, instructions=instructions)


def continue_device_log_in(
    provider: OIDCProvider, handle: str, *, code: str, address: str, now: datetime
) -> User | UnfinishedLogIn:
    """Return the user if the log-in is complete.

    Args:
        provider: where it was begun.
        handle: of ``begin_device_log_in``, or of the last ``UnfinishedLogIn``.
        code: of the second factor; empty: none.
        address: of the caller.
        now: for the validity of the handle.

    Raises:
        DeviceLogInOverError: it was refused, or its time is over.
        ProviderTokenRefusedError, ProviderFailedError: the provider's answer is not valid, or there is none.
        SuspendedError: the user is suspended.
        SecondFactorRequiredError, WrongCodeError, TooManyFailuresError: as for a log-in by password.
    """
    if code:
        return _with_code(provider, handle, code, now=now)
    log_in = device.log_in_of(handle, now=now)
    if log_in.provider_id != provider.id:
        raise DeviceLogInOverError("This log-in was begun at another provider; log in again.")
    if not _is_turn(log_in):
        return UnfinishedLogIn(handle=handle, expires_at=log_in.expires_at, slow_down=True)
    answer = _answer_of(provider, log_in, address=address)
    if isinstance(answer, str):
        return UnfinishedLogIn(handle=handle, expires_at=log_in.expires_at, slow_down=answer == "slow_down")
    user: User = log_in_by_provider(answer, address=address, now=now).user
    log_in_delay.succeeded(log_in.attempt)
    try:
        prove_second_factor(user, "", device="", now=now)
    except CodeNeededError:
        expires_at = now + _TIME_FOR_CODE
        contents: list[str | int] = [provider.id, int(user.pk), user.get_session_auth_hash()]
        verified = device.sealed(_VERIFIED, contents, expires_at=expires_at)
        return UnfinishedLogIn(handle=verified, expires_at=expires_at, code_needed=True)
    return user


def _answer_of(provider: OIDCProvider, log_in: DeviceLogIn, *, address: str) -> ProviderIdentity | str:
    """Ask the provider (``device.ask``), and record a refused log-in."""
    try:
        return device.ask(provider, log_in)
    except (DeviceLogInOverError, ProviderTokenRefusedError) as error:
        target = f"provider {provider.id}"
        record(SecurityEventKind.LOG_IN_REFUSED, address=address, target=target, reason=error.code)
        raise


def _with_code(provider: OIDCProvider, handle: str, code: str, *, now: datetime) -> User:
    (provider_id, user_id, mark), _ = device.unsealed(_VERIFIED, handle, now=now)
    user = User.objects.filter(pk=user_id, is_active=True).first()
    # A change of the account since the first step, such as a suspension, ends the log-in. Without a second factor the
    # code would prove nothing, and the same handle would give token after token.
    is_same = user is not None and user.get_session_auth_hash() == mark and has_second_factor(user)
    if user is None or provider_id != provider.id or not is_same:
        raise DeviceLogInOverError("Your account has changed meanwhile; log in again.")
    prove_second_factor(user, code, device="", now=now)
    return user


def _is_turn(log_in: DeviceLogIn) -> bool:
    """Return whether the provider may be asked again; without Redis always."""
    key = f"device-log-in:{sha256(log_in.device_code.encode()).hexdigest()}"
    try:
        return bool(caches[CACHE].add(key, 1, timeout=_LEAST_INTERVAL_S))
    except (RedisError, OSError):
        logger.warning("device_log_in.not_limited")
        return True
