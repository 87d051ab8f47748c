"""Use cases of the accounts app."""

from wms.accounts.services.access import (
    GroupNeededError,
    NotAMemberError,
    SuspendedError,
    WrongCredentialsError,
    acting_group,
    left_for,
    log_in,
    take_changes,
)
from wms.accounts.services.devices import (
    device_cookie_name,
    known_device,
    let_device_wait,
    remember_device,
    waited_device,
    waiting_cookie_name,
)
from wms.accounts.services.invitations import (
    NoInvitationError,
    accept,
    decline,
    invite,
    leave,
    remove_expired_invitations,
    withdraw,
)
from wms.accounts.services.log_in_delay import TooManyFailuresError
from wms.accounts.services.passwords import (
    IssuedLink,
    LinkOverError,
    issue_password_link,
    set_password_by_link,
    user_of_link,
)
from wms.accounts.services.preferences import (
    NoMailAddressError,
    choose_default_group,
    choose_mail,
    mail_address,
)
from wms.accounts.services.tokens import (
    IssuedToken,
    issue_token,
    note_use,
    revoke_token,
    revoke_tokens_of,
    revoke_visible_token,
)

__all__ = [
    "GroupNeededError",
    "IssuedLink",
    "IssuedToken",
    "LinkOverError",
    "NoInvitationError",
    "NoMailAddressError",
    "NotAMemberError",
    "SuspendedError",
    "TooManyFailuresError",
    "WrongCredentialsError",
    "accept",
    "acting_group",
    "choose_default_group",
    "choose_mail",
    "decline",
    "device_cookie_name",
    "invite",
    "issue_password_link",
    "issue_token",
    "known_device",
    "leave",
    "left_for",
    "let_device_wait",
    "log_in",
    "mail_address",
    "note_use",
    "remember_device",
    "remove_expired_invitations",
    "revoke_token",
    "revoke_tokens_of",
    "revoke_visible_token",
    "set_password_by_link",
    "take_changes",
    "user_of_link",
    "waited_device",
    "waiting_cookie_name",
    "withdraw",
]
