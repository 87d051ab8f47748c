"""Rule for computing elements whose pilots or payloads could access the server's own files: they are refused."""

import os
import pwd
from collections.abc import Mapping

from django.conf import settings

from resources.domain.ce_options import flaw_of_environment, gives_other_accounts, runs_as_the_server

_RUNS_AS_THE_SERVER = (
    "The pilots of this CE run under the server's own account, and their payloads could read its key and its database: "
    "give it identity sudo and the option payload_users, with accounts other than the server's; or run the server as "
    "root, whose pilots give each payload an account of its own; or use another machine, by ssh, slurm or htcondor."
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


def _own_account() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:  # the account may have no name, as in a container
        return str(os.geteuid())
