"""Delays after failed log-ins: the count of failures, and the time of the next allowed attempt."""

import math
import secrets
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Q

from wms.accounts import queries
from wms.accounts.domain import (
    CODE_FAILURE_WINDOW,
    DEVICE_WAIT,
    FAILURE_WINDOW,
    MAX_WAITED_OF_ADDRESS,
    MAX_WAITED_OF_NAME_AND_ADDRESS,
    OF_CODES,
    OF_DEVICE,
    WAITED_DEVICE_PREFIX,
    SecurityEventKind,
    delayed_until,
    digest_of,
    held_until,
)
from wms.accounts.models import FailedLogIn, User
from wms.accounts.security_log import record
from wms.kernel.addresses import address_block
from wms.kernel.db import LockKey, lock
from wms.kernel.errors import TooManyError


class TooManyFailuresError(TooManyError):
    """Too many failed log-ins with this name or from this address."""

    code = "too_many_failures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """An attempt to log in, by password or, where ``of_code``, by a code of a second factor.

    Args:
        name_digest: SHA-256 of the name as typed, or of the account of a code.
        address_block: of the client; see ``wms.kernel.addresses.address_block``.
        device: a browser that this account has logged in with before; empty: none known.
        waited_device: one that has waited after a delayed log-in (``devices.waited_device``); empty: none.
        target: the account, for the security log.
    """

    name_digest: bytes
    address_block: str
    device: str
    target: str
    waited_device: str = ""
    of_code: bool = False


def attempt_of_password(*, username: str, address: str, device: str, waited_device: str = "") -> Attempt:
    """Return the attempt with *username* from *address*."""
    # An unknown name is not recorded: people type passwords into its field.
    exists = User.objects.filter(username=username).exists()
    return Attempt(
        name_digest=digest_of(username),
        address_block=address_block(address)[:64],
        device=device,
        waited_device="" if device else waited_device,
        target=f"user {username}" if exists else "no such user",
    )


def attempt_of_code(user: User, *, device: str) -> Attempt:
    """Return the attempt with a code of the account of *user*; its address does not count."""
    return Attempt(
        name_digest=digest_of(f"user {user.pk}"),
        address_block="",
        device=device,
        target=f"user {user.username}",
        of_code=True,
    )


def attempt_by_provider(provider_name: str, *, address: str) -> Attempt:
    """Return the attempt to log in by a provider; only its address counts, as nobody is named yet."""
    return Attempt(
        name_digest=secrets.token_bytes(32),
        address_block=address_block(address)[:64],
        device="",
        target=f"provider {provider_name}",
    )


def begin(attempt: Attempt, *, now: datetime) -> int:
    """Count *attempt* as failed and return its row, which ``succeeded`` removes.

    It counts from its beginning, and attempts are counted one after another, so that concurrent ones cannot pass
    together. A known device is delayed by its own failures only: guesses from elsewhere do not lock its user out.

    Raises:
        TooManyFailuresError: the next attempt is not allowed yet; this one is not counted.
    """
    with transaction.atomic(durable=True):
        lock(LockKey.COUNT_LOG_INS)
        until = _until(attempt, now=now)
        if until is None:
            return FailedLogIn.objects.create(
                name_digest=attempt.name_digest,
                address=attempt.address_block,
                device=attempt.device or attempt.waited_device,
                of_code=attempt.of_code,
                failed_at=now,
            ).pk
    record(SecurityEventKind.LOG_IN_DELAYED, address=attempt.address_block, target=attempt.target)
    if not attempt.of_code and not attempt.device:
        until = min(until, now + DEVICE_WAIT)  # with the cookie that the answer sets
    seconds = math.ceil((until - now).total_seconds())
    what = "wrong codes" if attempt.of_code else "failed log-ins"
    raise TooManyFailuresError(f"Too many {what}; try again in {seconds} seconds.", retry_after_s=seconds)


def succeeded(row: int) -> None:
    """Remove an attempt that was counted as failed."""
    FailedLogIn.objects.filter(pk=row).delete()


def remove_old_failures(*, now: datetime) -> None:
    """Remove the failures that no longer count."""
    of_passwords = Q(of_code=False, failed_at__lte=now - FAILURE_WINDOW)
    FailedLogIn.objects.filter(of_passwords | Q(failed_at__lte=now - CODE_FAILURE_WINDOW)).delete()


def _until(attempt: Attempt, *, now: datetime) -> datetime | None:
    if attempt.of_code:
        return held_until(_times(attempt, now - CODE_FAILURE_WINDOW), OF_CODES, now=now)
    if attempt.device:
        return held_until(_times(attempt, now - FAILURE_WINDOW), OF_DEVICE, now=now)
    if attempt.waited_device and _may_use_wait(attempt, now - FAILURE_WINDOW):
        return None
    failures = queries.recent_failures(name_digest=attempt.name_digest, address=attempt.address_block, now=now)
    return delayed_until(failures, now=now)


def _may_use_wait(attempt: Attempt, after: datetime) -> bool:
    # Uses index: failed_log_in_recent
    at_address = FailedLogIn.objects.filter(
        address=attempt.address_block, device__startswith=WAITED_DEVICE_PREFIX, of_code=False, failed_at__gt=after
    )
    used = [(bytes(name), device) for name, device in at_address.values_list("name_digest", "device")]
    of_name = [device for name, device in used if name == attempt.name_digest]
    is_within_limits = len(used) < MAX_WAITED_OF_ADDRESS and len(of_name) < MAX_WAITED_OF_NAME_AND_ADDRESS
    return is_within_limits and attempt.waited_device not in of_name


def _times(attempt: Attempt, after: datetime) -> list[datetime]:
    # Uses index: failed_log_in_recent
    same = FailedLogIn.objects.filter(
        name_digest=attempt.name_digest, device=attempt.device, of_code=attempt.of_code, failed_at__gt=after
    )
    return list(same.values_list("failed_at", flat=True))
