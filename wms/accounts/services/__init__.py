"""Use cases of the accounts app."""

from wms.accounts.services.access import (
    GroupNeededError,
    NotAMemberError,
    TooManyFailuresError,
    WrongCredentialsError,
    acting_group,
    left_for,
    log_in,
)
from wms.accounts.services.tokens import (
    IssuedToken,
    SuspendedError,
    issue_token,
    revoke_token,
    revoke_tokens_of,
)

__all__ = [
    "GroupNeededError",
    "IssuedToken",
    "NotAMemberError",
    "SuspendedError",
    "TooManyFailuresError",
    "WrongCredentialsError",
    "acting_group",
    "issue_token",
    "left_for",
    "log_in",
    "revoke_token",
    "revoke_tokens_of",
]
