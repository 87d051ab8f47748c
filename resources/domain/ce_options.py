"""Rules for options of computing elements that hold for every backend; options decide what the server itself runs."""

import re
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from resources.domain.enums import PayloadIdentity

#: The only option that concerns the pilots of a CE and not its backend.
PAYLOAD_USERS = "payload_users"
#: Options that choose no program, file, host or account; every other one may, also one that is added later.
_CHOOSE_NOTHING: Final = frozenset(
    {"max_processes", "max_idle_s", "max_pending", "node_processors", "partition", "account", "qos", "constraint"}
)
#: Excludes names that sudo reads differently: "#0" as root, "-s" as an option.
_ACCOUNT = re.compile(r"(?!root$)[A-Za-z_][A-Za-z0-9_.@\\-]*\$?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Variables allowed for the commands of a batch system. Variables that name a program, a library or a module to load
#: (LD_PRELOAD, PYTHONPATH, BASH_ENV, …) would run code in a process of the server.
_ALLOWED_VARIABLE: Final = re.compile(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|SLURM_CONF|CONDOR_CONFIG|_CONDOR_[A-Za-z0-9_.]+"
    r"|KRB5CCNAME|X509_USER_PROXY|X509_CERT_DIR|BEARER_TOKEN_FILE"
)
_ALLOWED_IN_WORDS: Final = (
    "LANG, LANGUAGE, LC_*, TZ, TMPDIR, SLURM_CONF, CONDOR_CONFIG, _CONDOR_*, KRB5CCNAME, X509_USER_PROXY, "
    "X509_CERT_DIR and BEARER_TOKEN_FILE"
)

#: Numbers of an IPv4 address as OpenSSH takes them: hexadecimal, octal or decimal.
_NUMBER: Final = re.compile(r"0x(?P<hex>[0-9a-f]+)|0(?P<oct>[0-7]*)|(?P<dec>[1-9][0-9]{0,9})", re.IGNORECASE)
#: Names that resolvers and /etc/hosts of Linux distributions have for the loopback address.
_LOOPBACK_NAME: Final = re.compile(
    r"(?:.*\.)?localhost[46]?(?:\.localdomain[46]?)?|ip6-(?:localhost|loopback)|loopback", re.IGNORECASE
)


def payload_users(options: Mapping[str, object]) -> tuple[str, ...]:
    """Return the account names; empty if the option is not a list of names, or contains root."""
    accounts = options.get(PAYLOAD_USERS)
    if not isinstance(accounts, list) or not all(isinstance(a, str) and _ACCOUNT.fullmatch(a) for a in accounts):
        return ()
    return tuple(dict.fromkeys(accounts))


def flaw_of_accounts(options: Mapping[str, object], *, sudo: bool) -> str | None:
    """Return what is wrong with the option ``payload_users``, in one sentence; None: no fault.

    Args:
        options: of the CE.
        sudo: whether payloads run under these accounts.
    """
    if PAYLOAD_USERS in options and not payload_users(options):
        return f'The option {PAYLOAD_USERS} must list Unix accounts other than root, such as ["wms01", "wms02"].'
    if sudo and PAYLOAD_USERS not in options:
        return (
            f"Identity sudo requires the option {PAYLOAD_USERS}: Unix accounts of the nodes that the pilot may become."
        )
    return None


def of_backend(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the options for the backend."""
    return {name: value for name, value in options.items() if name != PAYLOAD_USERS}


def choices_of_programs(type_: str, options: Mapping[str, object], identity: str) -> Mapping[str, object]:
    """Return what of a CE decides which programs run, where, and under which account: by the field, or the option."""
    return {"type": type_, "identity": identity} | {
        name: value for name, value in options.items() if name not in _CHOOSE_NOTHING
    }


def flaw_of_environment(options: Mapping[str, object]) -> str | None:
    """Return what is wrong with the option ``environment``, in one sentence; None: no fault."""
    environment = options.get("environment", {})
    if not isinstance(environment, Mapping):
        return f"The option environment must be an object of names and values; it is {environment!r}."
    for name, value in environment.items():
        if not isinstance(name, str) or not _VARIABLE.fullmatch(name):
            return f"{name!r} in the option environment is not a valid variable name."
        if not _ALLOWED_VARIABLE.fullmatch(name):
            return f"The option environment may set {_ALLOWED_IN_WORDS} only; remove {name}."
        if not isinstance(value, str) or not (value.isprintable() or not value):
            return f"{name} in the option environment must be a text in one line; it is {value!r}."
    return None


def runs_as_the_server(type_: str, options: Mapping[str, object], *, account: str, machine: str = "localhost") -> bool:
    """Return whether the pilots of a CE are processes of the server's machine, under the server's account.

    NB: whether another name or address, or a node of a batch system, is the server's machine is known only to its
    administrators.

    Args:
        type_: of the CE.
        options: of the CE.
        account: the server's account.
        machine: host name of the server's machine.
    """
    if type_ == "local":
        return True
    host, user = options.get("host"), options.get("user", account)
    return type_ == "ssh" and isinstance(host, str) and _is_machine(host, machine) and user == account


def gives_other_accounts(options: Mapping[str, object], identity: str, *, account: str) -> bool:
    """Return whether no payload of a CE runs under *account*, the account of its pilots."""
    accounts = payload_users(options)
    return identity == PayloadIdentity.SUDO and bool(accounts) and account not in accounts


def _is_machine(host: str, machine: str) -> bool:
    """Return whether OpenSSH on a machine of this name connects to that machine itself, as far as the text says it."""
    address = _address_of(host.strip().removeprefix("[").removesuffix("]"))
    if address is not None:
        # A connection to the unspecified address goes to the own machine.
        return address.is_loopback or address.is_unspecified
    name = host.strip().rstrip(".").casefold()
    return name in {machine.casefold(), machine.casefold().partition(".")[0]} or bool(_LOOPBACK_NAME.fullmatch(name))


def _address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that is written in any form that OpenSSH takes; None: it is a name."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return _short_ipv4(host)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _short_ipv4(host: str) -> IPv4Address | None:
    """Return the address of up to four numbers, such as 127.1 or 0x7f000001, of which the last fills the rest."""
    numbers = [_NUMBER.fullmatch(part) for part in host.split(".")]
    values = [
        int(n["hex"] or n["oct"] or n["dec"] or "0", 16 if n["hex"] else 10 if n["dec"] else 8) for n in numbers if n
    ]
    if len(values) < len(numbers) or len(values) > 4:
        return None
    *first, last = values
    if max(first, default=0) > 255 or last >= 256 ** (4 - len(first)):
        return None
    return IPv4Address(int.from_bytes(first, "big") * 256 ** (4 - len(first)) + last)
