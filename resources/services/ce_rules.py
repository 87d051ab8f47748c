"""Rules that refuse computing elements and storage by which others could reach the server's account (ADR 43, 84)."""

import os
import pwd
from collections.abc import Mapping

from django.conf import settings

from resources.domain.ce_options import (
    choices_of_programs,
    flaw_of_environment,
    gives_other_accounts,
    runs_as_the_server,
)
from resources.models import ComputingElement
from wms.kernel.names import listed

_RUNS_AS_THE_SERVER = (
    "The pilots of this CE run under the server's own account, and their payloads could read its key and its database: "
    "give it identity sudo and the option payload_users, with accounts other than the server's; or run the server as "
    "root, whose pilots give each payload an account of its own; or use another machine, by ssh, slurm or htcondor."
)

_MISSING = object()
_NOT_OVER_HTTP = (
    "Programs of this CE would run under the account that started this embedded system, so {changed} cannot be set "
    "here: use `configure` under that account, or start the system with WMS_CE_PROGRAMS_OVER_HTTP=true."
)
_NO_DIRECTORY_OVER_HTTP = (
    "Pilots would read and write there under the account that started this embedded system: use `configure` under that "
    "account, or start the system with WMS_CE_PROGRAMS_OVER_HTTP=true."
)


def refusal(type_: str, options: Mapping[str, object], identity: str) -> tuple[str, str] | None:
    """Return the wrong field of a CE (``options`` or ``type``) and a sentence; None: it is accepted.

    Args:
        type_, options, identity: of the CE, stored or to be stored.
    """
    if flaw := flaw_of_environment(options):
        return "options", flaw
    if settings.WMS_EMBEDDED or os.geteuid() == 0:
        return None
    account = _own_account()
    if runs_as_the_server(type_, options, account=account, machine=os.uname().nodename) and not gives_other_accounts(
        options, identity, account=account
    ):
        return "type", _RUNS_AS_THE_SERVER
    return None


def refusal_over_http(
    stored: ComputingElement | None, *, type_: str, options: Mapping[str, object], identity: str
) -> tuple[str, str] | None:
    """Return the wrong field of a CE and a sentence if it may not be stored by a request; None: it is accepted.

    An embedded system runs under somebody's own account, and who logs in must not choose programs of this account.

    Args:
        stored: the CE as it is; None: a new one.
        type_, options, identity: of the CE, to be stored.
    """
    if not _protects_its_account():
        return None
    before: Mapping[str, object] = (
        {} if stored is None else choices_of_programs(stored.type, stored.options, stored.identity)
    )
    after = choices_of_programs(type_, options, identity)
    changed = sorted(
        name for name in before.keys() | after.keys() if before.get(name, _MISSING) != after.get(name, _MISSING)
    )
    if not changed:
        return None
    field = next((name for name in ("type", "identity") if name in changed), "options")
    return field, _NOT_OVER_HTTP.format(changed=listed(changed))


def refusal_of_url_over_http(stored: str, url: str) -> str | None:
    """Return a sentence if a request may not give a storage element the URL; None: it is accepted.

    Pilots of an embedded system write its account's files there, such as `bin/…` in its home for a VO of this name.

    Args:
        stored: the URL as it is; empty: that of a new one.
        url: to be stored.
    """
    is_directory = url.casefold().startswith("file:")
    return _NO_DIRECTORY_OVER_HTTP if is_directory and url != stored and _protects_its_account() else None


def _protects_its_account() -> bool:
    return settings.WMS_EMBEDDED and not settings.WMS_CE_PROGRAMS_OVER_HTTP


def _own_account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # the account may have no name, as in a container
        return str(os.geteuid())
