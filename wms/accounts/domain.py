"""Words and rules of the accounts app."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

#: Of the window of the stall rule, anywhere but for 0: the watchdog looks more than once, and payloads may read input.
MIN_STALLED_S = 60
#: The same: a year; more is a mistake of units.
MAX_STALLED_S = 366 * 24 * 3600
#: How the bearer tokens of users begin.
USER_TOKEN_PREFIX = "wmsu_"  # noqa: S105 - not a secret


class GroupProperty(StrEnum):
    """What a group may do beyond the ordinary."""

    #: Members share the group's priority and see and manage each other's jobs (PRI).
    JOB_SHARING = "JOB_SHARING"


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of *token*, the only form in which it is stored.

    A fast digest is right here: unlike a password the token has 256 random bits that nobody can try out.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


#: A failed log-in counts for so long.
BRAKE_WINDOW = timedelta(minutes=5)
#: Mistyped passwords of one person are fewer; a machine that guesses is stopped.
MAX_FAILURES_OF_NAME_AND_ADDRESS = 10
#: For one name from many addresses, or many names from one address (which may be that of a whole institute).
MAX_FAILURES_OF_NAME = 100
MAX_FAILURES_OF_ADDRESS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed log-in that shares the name, the address or both with the attempt at hand."""

    failed_at: datetime
    same_name: bool
    same_address: bool


def braked_until(failures: Iterable[Failure], *, now: datetime) -> datetime | None:
    """Return from when on the next attempt is allowed, or None if it is now."""
    newest_first = sorted((f for f in failures if f.failed_at > now - BRAKE_WINDOW), key=lambda f: f.failed_at)[::-1]
    counted = (
        ([f for f in newest_first if f.same_name and f.same_address], MAX_FAILURES_OF_NAME_AND_ADDRESS),
        ([f for f in newest_first if f.same_name], MAX_FAILURES_OF_NAME),
        ([f for f in newest_first if f.same_address], MAX_FAILURES_OF_ADDRESS),
    )
    ends = [of_kind[limit - 1].failed_at + BRAKE_WINDOW for of_kind, limit in counted if len(of_kind) >= limit]
    return max(ends, default=None)
