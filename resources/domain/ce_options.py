"""What the options of a computing element may say, whatever its backend; they decide what the server itself runs."""

import re
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final

from resources.domain.enums import PayloadIdentity

#: The only option of a CE that is for its pilots, whatever its backend.
PAYLOAD_USERS = "payload_users"
#: sudo would take "#0" for root, and "-s" for an option of its own.
_ACCOUNT = re.compile(r"(?!root$)[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Of the commands of a batch system. None of these names a program, a library or a module that would be loaded: those
#: (LD_PRELOAD, PYTHONPATH, BASH_ENV, …) would run in the server's own process of the command.
_ALLOWED_VARIABLE: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|SLURM_CONF|CONDOR_CONFIG|_CONDOR_[A-Za-z0-9_.]+"
    r"|KRB5CCNAME|X509_USER_PROXY|X509_CERT_DIR|BEARER_TOKEN_FILE"
)
_ALLOWED_IN_WORDS: Final = (
    "LANG, LANGUAGE, LC_*, TZ, TMPDIR, SLURM_CONF, CONDOR_CONFIG, _CONDOR_*, KRB5CCNAME, X509_USER_PROXY, "
    "X509_CERT_DIR and BEARER_TOKEN_FILE"
)


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


def flaw_of_environment(options: Mapping[str, object]) -> str | None:
    """Return what is wrong with the option ``environment``, in one sentence; None: nothing."""
    given = options.get("environment", {})
    if not isinstance(given, Mapping):
        return f"The option environment must be names with their values; it is {given!r}."
    for name, value in given.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            return f"The option environment must have names of variables; {name!r} is none."
        if not _ALLOWED_VARIABLE.fullmatch(name):
            return f"The option environment may set {_ALLOWED_IN_WORDS} only; remove {name}."
        if not isinstance(value, str) or not (value.isprintable() or not value):
            return f"{name} in the option environment must be a text in one line; it is {value!r}."
    return None


def runs_as_the_server(type_: str, options: Mapping[str, object], *, account: str) -> bool:
    """Return whether the pilots of a CE are processes of the server's machine, under the server's account.

    NB: of a batch system only its administrators know where its nodes are.

    Args:
        type_: of the CE.
        options: of the CE.
        account: of the server.
    """
    if type_ == "local":
        return True
    host, user = options.get("host"), options.get("user", account)
    return type_ == "ssh" and isinstance(host, str) and _is_loopback(host) and user == account


def gives_other_accounts(options: Mapping[str, object], identity: str, *, account: str) -> bool:
    """Return whether no payload of a CE runs under *account*, that of its pilots."""
    accounts = payload_users(options)
    return identity == PayloadIdentity.SUDO and bool(accounts) and account not in accounts


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.casefold().rstrip(".").removesuffix(".localdomain") == "localhost"
