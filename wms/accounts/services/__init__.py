"""Use cases of the accounts app."""

from wms.accounts.services.access import (
    GroupNeededError,
    NotAMemberError,
    WrongCredentialsError,
    acting_group,
    left_for,
    log_in,
)
from wms.accounts.services.brake import TooManyFailuresError
from wms.accounts.services.devices import DEVICE_COOKIE_AGE, device_cookie, device_cookie_name, known_device
from wms.accounts.services.tokens import (
    IssuedToken,
    SuspendedError,
    issue_token,
    revoke_token,
    revoke_tokens_of,
)

__all__ = [
    "DEVICE_COOKIE_AGE",
    "GroupNeededError",
    "IssuedToken",
    "NotAMemberError",
    "SuspendedError",
    "TooManyFailuresError",
    "WrongCredentialsError",
    "acting_group",
    "device_cookie",
    "device_cookie_name",
    "issue_token",
    "known_device",
    "left_for",
    "log_in",
    "revoke_token",
    "revoke_tokens_of",
]
