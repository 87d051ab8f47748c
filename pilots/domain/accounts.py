"""The Unix accounts of a site under which payloads run, as a computing element's options name them (PIL §3.1)."""

import re
from collections.abc import Mapping

#: The only option of a CE that is for its pilots, whatever its backend.
PAYLOAD_USERS = "payload_users"
#: sudo would take "#0" for root, and "-s" for an option of its own.
_ACCOUNT = re.compile(r"(?!root$)[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")


def payload_users(options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the names of the accounts; nothing where they are not written as a list of names, or root is one."""
    told = options.get(PAYLOAD_USERS)
    if not isinstance(told, list) or not all(isinstance(name, str) and _ACCOUNT.fullmatch(name) for name in told):
        return ()
    return tuple(dict.fromkeys(told))


def flaw_of_accounts(options: Mapping[str, object], *, sudo: bool) -> str | None:
    """Return what is wrong with the option, in one sentence; None: nothing.

    Args:
        options: of the CE.
        sudo: whether payloads are to run under these accounts.
    """
    if PAYLOAD_USERS in options and not payload_users(options):
        return f'The option {PAYLOAD_USERS} is a list of names of Unix accounts but root, such as ["wms01", "wms02"].'
    if sudo and PAYLOAD_USERS not in options:
        return f"Identity sudo needs the option {PAYLOAD_USERS}: Unix accounts of the nodes that the pilot may become."
    return None


def of_backend(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options that are for the backend."""
    return {name: value for name, value in options.items() if name != PAYLOAD_USERS}
