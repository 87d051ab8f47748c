"""Tables of the accounts app."""

from wms.accounts.models.credentials import (
    ApiToken,
    ConfigurationChange,
    FailedLogIn,
    PasswordLink,
    SecurityEvent,
    UserSession,
    identity_of,
)
from wms.accounts.models.people import VO, Group, Invitation, Membership, User, UserDN, concerned_vo_ids, lapsed_before

__all__ = [
    "VO",
    "ApiToken",
    "ConfigurationChange",
    "FailedLogIn",
    "Group",
    "Invitation",
    "Membership",
    "PasswordLink",
    "SecurityEvent",
    "User",
    "UserDN",
    "UserSession",
    "concerned_vo_ids",
    "identity_of",
    "lapsed_before",
]
