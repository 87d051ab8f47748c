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


class SecurityEventKind(StrEnum):
    """The kinds of events that the security log has; a new one needs no migration."""

    LOG_IN_ACCEPTED = "log_in.accepted"
    LOG_IN_REFUSED = "log_in.refused"
    #: Too many failed attempts: the password was not looked at, or only after a delay.
    LOG_IN_BRAKED = "log_in.braked"
    LOG_OUT = "log_out"
    #: A request came with a token that is unknown, expired, revoked or of another kind, or without any (401).
    CREDENTIAL_REFUSED = "credential.refused"
    #: The caller is known and may not do this (403).
    ACCESS_REFUSED = "access.refused"
    #: The caller asked more often than it may (429).
    RATE_EXCEEDED = "rate.exceeded"
    #: A bearer token of a user, a pilot's token made by hand, or a site's token.
    TOKEN_ISSUED = "token.issued"  # noqa: S105 - the name of an event
    TOKEN_REVOKED = "token.revoked"  # noqa: S105 - the name of an event
    PASSWORD_CHANGED = "password.changed"  # noqa: S105 - the name of an event
    #: A link by which a user sets a password once.
    PASSWORD_LINK_ISSUED = "password_link.issued"  # noqa: S105 - the name of an event
    SECOND_FACTOR_ADDED = "second_factor.added"
    SECOND_FACTOR_REMOVED = "second_factor.removed"
    SECOND_FACTOR_REFUSED = "second_factor.refused"
    INVITATION_SENT = "invitation.sent"
    INVITATION_ACCEPTED = "invitation.accepted"
    INVITATION_DECLINED = "invitation.declined"
    INVITATION_WITHDRAWN = "invitation.withdrawn"
    USER_ADDED = "user.added"
    USER_REMOVED = "user.removed"
    USER_SUSPENDED = "user.suspended"
    USER_RESTORED = "user.restored"
    #: Staff, operator or superuser; memberships; managers of a VO; properties of a group; certificates.
    RIGHTS_CHANGED = "rights.changed"
    #: A site, computing element or queue was banned, drained or made active.
    RESOURCE_STATE_CHANGED = "resource.state_changed"
    COMPUTING_ELEMENT_CHANGED = "computing_element.changed"
    STORAGE_ELEMENT_CHANGED = "storage_element.changed"
    PILOT_REVOKED = "pilot.revoked"
    CONFIGURATION_APPLIED = "configuration.applied"
    #: Any other row that somebody added, changed or deleted on a page of the admin.
    CONFIGURATION_CHANGED = "configuration.changed"
    KEY_ROTATED = "key.rotated"


#: Nothing was changed: these are kept although the transaction of the request is rolled back, and a flood is counted.
REFUSALS = frozenset(
    {
        SecurityEventKind.LOG_IN_REFUSED,
        SecurityEventKind.LOG_IN_BRAKED,
        SecurityEventKind.CREDENTIAL_REFUSED,
        SecurityEventKind.ACCESS_REFUSED,
        SecurityEventKind.RATE_EXCEEDED,
        SecurityEventKind.SECOND_FACTOR_REFUSED,
    }
)


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
