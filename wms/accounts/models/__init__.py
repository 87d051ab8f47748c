"""Tables of the accounts app."""

from wms.accounts.models.credentials import ApiToken, FailedLogIn, PasswordLink, SecurityEvent, UserSession
from wms.accounts.models.people import VO, Group, Invitation, Membership, User, UserDN, lapsed_before

__all__ = [
    "VO",
    "ApiToken",
    "FailedLogIn",
    "Group",
    "Invitation",
    "Membership",
    "PasswordLink",
    "SecurityEvent",
    "User",
    "UserDN",
    "UserSession",
    "lapsed_before",
]
