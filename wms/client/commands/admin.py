"""The command of VO managers and operators, whose actions are in the modules `admin_…`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ..errors import ServerRefusedError
from ..terminal.text import plain
from . import (
    accounting,
    admin_configuration,
    admin_downtimes,
    admin_history,
    admin_parameters,
    admin_people,
    admin_pilots,
    admin_policies,
    admin_sites,
    resources,
)
from .admin_changes import AdminAction
from .command import Command, CommandOutput, CommandSession

_ACTIONS: Mapping[str, AdminAction] = {
    **admin_policies.ACTIONS,
    **admin_downtimes.ACTIONS,
    **admin_people.ACTIONS,
    **admin_pilots.ACTIONS,
    **admin_sites.ACTIONS,
    **admin_parameters.ACTIONS,
    **admin_history.ACTIONS,
    **admin_configuration.ACTIONS,
    "shares": AdminAction(
        "show the shares of groups: configured, in effect and delivered", *resources.COMMANDS["shares"], is_change=False
    ),
    "accounting": AdminAction(
        "show jobs, CPU time and core hours of a period", *accounting.COMMANDS["accounting"], is_change=False
    ),
}

#: What an answer raises whose fields are missing, or of other types.
_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def _configure(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, action in _ACTIONS.items():
        about = f"{action.about[0].upper()}{action.about[1:]}."
        below = actions.add_parser(name, help=action.about, description=about, allow_abbrev=False)
        action.configure(below)
        if action.is_change:
            below.add_argument("--dry-run", action="store_true", help="check, and change nothing")


def _admin(options: Namespace, session: CommandSession) -> CommandOutput:
    try:
        return _ACTIONS[options.action].run(options, session)
    except ServerRefusedError as error:
        if error.code != "insufficient_scope":
            raise
        detail = f"{plain(error)} Log in by `wms login --scope administer`."
        raise ServerRefusedError({**error.as_json(), "detail": detail}, status=error.status) from error
    except _UNREADABLE as error:
        raise session.server.other_program() from error


COMMANDS = {"admin": Command(_configure, _admin)}
