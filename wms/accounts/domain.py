"""Terms and rules of the accounts app."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import NamedTuple

#: Least window of the stall rule, in seconds, beside 0: the watchdog needs several samples; payloads may read input.
MIN_STALLED_S = 60
#: Longest window of the stall rule, in seconds: a year; more is a mistake of units.
MAX_STALLED_S = 366 * 24 * 3600
#: Prefix of the bearer tokens of users.
USER_TOKEN_PREFIX = "wmsu_"  # noqa: S105 - not a secret


#: Greatest priority of a group.
MOST_PRIORITY = 1e12


class GroupProperty(StrEnum):
    """A special right of a group."""

    #: Members share the group's priority and see and manage each other's jobs (PRI).
    JOB_SHARING = "JOB_SHARING"
    #: Its jobs do not count in WMS_MAX_WAITING_JOBS_PER_USER; only operators grant it.
    PRODUCTION = "PRODUCTION"


class SecurityEventKind(StrEnum):
    """Kinds of events in the security log, as ``token.issued``; a new one needs no migration."""

    @staticmethod
    def _generate_next_value_(name: str, _start: int, _count: int, _last_values: list[str]) -> str:
        what, _, happened = name.lower().rpartition("_")
        return f"{what}.{happened}"

    LOG_IN_ACCEPTED = auto()
    LOG_IN_REFUSED = auto()
    #: Too many failed attempts: the password was not checked, or only after a delay. Alerts may match the value.
    LOG_IN_DELAYED = "log_in.braked"
    LOG_OUT = "log_out"
    #: A request with an unknown, expired or revoked token or one of another kind, or without any (401).
    CREDENTIAL_REFUSED = auto()
    #: The caller is authenticated but not allowed to do this (403).
    ACCESS_REFUSED = auto()
    #: The caller exceeded a rate limit (429).
    RATE_EXCEEDED = auto()
    #: A bearer token of a user, a pilot's token made by hand, or a site's token.
    TOKEN_ISSUED = auto()
    TOKEN_REVOKED = auto()
    PASSWORD_CHANGED = auto()
    #: A link by which a user sets a password once.
    PASSWORD_LINK_ISSUED = auto()
    SECOND_FACTOR_ADDED = auto()
    SECOND_FACTOR_REMOVED = auto()
    #: A code or key at a log-in, or before a sensitive action; the password was right.
    SECOND_FACTOR_ACCEPTED = auto()
    SECOND_FACTOR_REFUSED = auto()
    INVITATION_SENT = auto()
    INVITATION_ACCEPTED = auto()
    INVITATION_DECLINED = auto()
    INVITATION_WITHDRAWN = auto()
    #: An account at a provider of OpenID Connect, by which the user logs in from now on, or no longer.
    ACCOUNT_CONNECTED = auto()
    ACCOUNT_DISCONNECTED = auto()
    #: Of people who came by OpenID Connect and waited.
    PERSON_ADMITTED = auto()
    PERSON_REFUSED = auto()
    USER_ADDED = auto()
    USER_REMOVED = auto()
    USER_SUSPENDED = auto()
    USER_RESTORED = auto()
    #: Staff, operator or superuser; memberships; managers of a VO; properties of a group; certificates.
    RIGHTS_CHANGED = auto()
    #: A site, computing element or queue was banned, drained or made active.
    RESOURCE_STATE_CHANGED = "resource.state_changed"
    COMPUTING_ELEMENT_CHANGED = auto()
    STORAGE_ELEMENT_CHANGED = auto()
    PILOT_DRAINED = auto()
    PILOT_REVOKED = auto()
    CONFIGURATION_APPLIED = auto()
    #: Any other row added, changed or deleted on an admin page.
    CONFIGURATION_CHANGED = auto()
    KEY_ROTATED = auto()


#: Nothing was changed: these are stored even if the transaction of the request is rolled back, and floods are counted.
REFUSALS = frozenset(
    {
        SecurityEventKind.LOG_IN_REFUSED,
        SecurityEventKind.LOG_IN_DELAYED,
        SecurityEventKind.CREDENTIAL_REFUSED,
        SecurityEventKind.ACCESS_REFUSED,
        SecurityEventKind.RATE_EXCEEDED,
        SecurityEventKind.SECOND_FACTOR_REFUSED,
    }
)


#: Changes of the configuration, which have an age of their own.
OF_CONFIGURATION = frozenset(
    {
        SecurityEventKind.RIGHTS_CHANGED,
        SecurityEventKind.RESOURCE_STATE_CHANGED,
        SecurityEventKind.COMPUTING_ELEMENT_CHANGED,
        SecurityEventKind.STORAGE_ELEMENT_CHANGED,
        SecurityEventKind.CONFIGURATION_APPLIED,
        SecurityEventKind.CONFIGURATION_CHANGED,
    }
)


class Standing(NamedTuple):
    """A group of a user, a VO that it manages, or an open invitation to a group."""

    #: ``group``, ``vo`` or ``invitation``.
    kind: str
    #: Of the group, the VO, or the invitation.
    id: int
    vo_id: int
    #: Whether the members of the group see one another's jobs.
    shares_jobs: bool


class TokenScope(StrEnum):
    """The rights of a user's token; each scope includes those above it."""

    #: Whatever the user may see.
    READ = "read"
    #: Also: submit jobs, upload sandboxes, and act on the user's own jobs.
    SUBMIT = "submit"
    #: Whatever the user may do, but for the configuration.
    MANAGE = "manage"
    #: Also: change the configuration, which a manager or an operator may.
    ADMINISTER = "administer"

    def includes(self, other: "TokenScope") -> bool:
        """Return whether a token of this scope may do what *other* allows."""
        scopes = list(TokenScope)
        return scopes.index(self) >= scopes.index(other)


class MailWhen(StrEnum):
    """Occasions on which a user gets mail about an own submission."""

    NEVER = "never"
    #: All of its jobs have ended.
    ENDED = "ended"
    #: They have, and at least one has failed.
    FAILED = "failed"


#: Open invitations of one group; a larger VO is loaded from the configuration file.
MAX_OPEN_INVITATIONS = 1000
#: Least time between two writes of a token's last use: a match must not wait for it.
LAST_USE_STEP = timedelta(minutes=10)
#: Longest lifetime of a token of `manage.py token`, in days.
MAX_TOKEN_DAYS = 3660
#: Largest age at which ended jobs are removed, a hundred years.
MAX_KEPT_DAYS = 36_525


def digest_of(token: str) -> bytes:
    """Return the SHA-256 of *token*, the only form in which it is stored.

    A fast digest is enough: unlike a password, the token has 256 random bits that cannot be guessed.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureDelay:
    """The delay after failed attempts: none for the first ones, then doubled with each further failure.

    Args:
        free: failures without a delay.
        first_s: first delay, in seconds.
        longest_s: longest delay, in seconds.
        window: time for which a failure counts.
    """

    free: int
    first_s: int
    longest_s: int
    window: timedelta


#: Time for which a failed log-in counts.
FAILURE_WINDOW = timedelta(minutes=5)
#: Time for which a wrong code of a second factor counts: longer, as there are only a million codes.
CODE_FAILURE_WINDOW = timedelta(hours=1)
#: Free failures of one name at one address: more than one person mistypes, far fewer than a guessing program needs.
MAX_FAILURES_OF_NAME_AND_ADDRESS = 10
#: Failures of one name, over all addresses, from which on each address has fewer free ones.
MAX_FAILURES_OF_NAME = 100
#: Free failures of all names at one address, which may be that of a whole institute.
MAX_FAILURES_OF_ADDRESS = 100
#: The same for a name that has hardly failed there: somebody's guesses at other names do not delay it.
MAX_FAILURES_OF_ADDRESS_FOR_OTHERS = 1000

OF_NAME_AND_ADDRESS = FailureDelay(
    free=MAX_FAILURES_OF_NAME_AND_ADDRESS, first_s=10, longest_s=300, window=FAILURE_WINDOW
)
#: For a name under attack from many addresses, and at an address with many failures. NB: the delay never counts
#: failures at other addresses: an attacker could then block the true user for ever.
OF_ATTACKED_NAME_AND_ADDRESS = FailureDelay(free=3, first_s=10, longest_s=300, window=FAILURE_WINDOW)
#: Short, as others at this address wait too: about as many attempts in the window as are free.
OF_ADDRESS = FailureDelay(free=MAX_FAILURES_OF_ADDRESS, first_s=1, longest_s=5, window=FAILURE_WINDOW)
OF_ADDRESS_FOR_OTHERS = FailureDelay(
    free=MAX_FAILURES_OF_ADDRESS_FOR_OTHERS, first_s=1, longest_s=5, window=FAILURE_WINDOW
)
#: Time that an unknown device waits once its log-in was delayed; then one attempt with it is not delayed (ADR 87).
DEVICE_WAIT = timedelta(seconds=20)
#: Time for which such a device may use this attempt: less than the window, in which it cannot be used again.
DEVICE_WAIT_AGE = timedelta(minutes=4)
#: Of the ids of such devices; those of known ones are hexadecimal.
WAITED_DEVICE_PREFIX = "w"
#: Such attempts in the window, of one name at one address and of all names there.
MAX_WAITED_OF_NAME_AND_ADDRESS = 4
MAX_WAITED_OF_ADDRESS = 100
#: For a browser that the user has logged in with before.
OF_DEVICE = FailureDelay(free=10, first_s=10, longest_s=300, window=FAILURE_WINDOW)
#: For codes of one account, from anywhere: only attempts with the right password come so far.
OF_CODES = FailureDelay(free=5, first_s=10, longest_s=900, window=CODE_FAILURE_WINDOW)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A failed log-in with the name, the address or both of the current attempt."""

    failed_at: datetime
    same_name: bool
    same_address: bool


def held_until(failures: Iterable[datetime], limit: FailureDelay, *, now: datetime) -> datetime | None:
    """Return the time of the next allowed attempt after failures at these times, or None if it is allowed now."""
    counted = [failed_at for failed_at in failures if failed_at > now - limit.window]
    beyond = len(counted) - limit.free
    if beyond < 0:
        return None
    until = max(counted) + timedelta(seconds=min(limit.first_s * 2 ** min(beyond, 30), limit.longest_s))
    return until if until > now else None


def delayed_until(failures: Iterable[Failure], *, now: datetime) -> datetime | None:
    """Return the time of the next allowed attempt of a name at an address, or None if it is allowed now."""
    recent = [failure for failure in failures if failure.failed_at > now - FAILURE_WINDOW]
    at_address = [failure.failed_at for failure in recent if failure.same_address]
    of_name_there = [failure.failed_at for failure in recent if failure.same_address and failure.same_name]
    is_attacked = sum(failure.same_name for failure in recent) >= MAX_FAILURES_OF_NAME
    is_strict = is_attacked or len(at_address) >= MAX_FAILURES_OF_ADDRESS
    of_both = OF_ATTACKED_NAME_AND_ADDRESS if is_strict else OF_NAME_AND_ADDRESS
    has_failed_often = len(of_name_there) >= OF_ATTACKED_NAME_AND_ADDRESS.free
    ends = (
        held_until(of_name_there, of_both, now=now),
        held_until(at_address, OF_ADDRESS if has_failed_often else OF_ADDRESS_FOR_OTHERS, now=now),
    )
    return max(filter(None, ends), default=None)
