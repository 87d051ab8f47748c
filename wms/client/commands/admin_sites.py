"""Actions of `wms admin` on one site: its administrators, its tokens, and what failed there."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping

from ..errors import WrongUsageError
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.protocol import API_V1
from .admin_changes import AdminAction, add_end, address_of, delete, end_in, tried
from .command import CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_ADMINISTRATORS = (
    TableColumn("USER", importance=3),
    TableColumn("MADE BY", importance=1),
    TableColumn("SINCE", ColumnKind.MOMENT, importance=2),
)
_TOKENS = (
    TableColumn("ID", ColumnKind.NUMBER, importance=6),
    TableColumn("PURPOSE", importance=5),
    TableColumn("EXPIRES", ColumnKind.MOMENT, importance=4),
    TableColumn("REVOKED", ColumnKind.MOMENT, importance=3),
    TableColumn("PILOTS", ColumnKind.NUMBER, importance=2),
    TableColumn("CREATED", ColumnKind.MOMENT, importance=1),
)
_FAILURES = (
    TableColumn("HOST", importance=7),
    TableColumn("ENDED", ColumnKind.MOMENT, importance=6),
    TableColumn("PHASE", importance=5),
    TableColumn("EXIT", ColumnKind.NUMBER, importance=4),
    TableColumn("PILOT", ColumnKind.NUMBER, importance=3),
    TableColumn("LEASED", ColumnKind.MOMENT, importance=1),
    TableColumn("REASON", importance=2),
)


def _configure_site(parser: ArgumentParser) -> None:
    parser.add_argument("site", metavar="SITE", help="name of the site")


# ---- Administrators --------------------------------------------------------------------------------------------------


def _configure_administrator(parser: ArgumentParser) -> None:
    _configure_site(parser)
    about = "user to make an administrator of the site; left out: list them"
    parser.add_argument("user", nargs="?", metavar="USER", help=about)
    parser.add_argument("--remove", action="store_true", help="end the role of the user")


def _administrator(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.user is None:
        if options.remove:
            raise WrongUsageError("Name the user whose role --remove ends.")
        return _administrators(options, session)
    address = address_of("sites", options.site, "administrators", options.user)
    user, site = plain(options.user), plain(options.site)
    if options.remove:
        delete(session, address, options)
        sentence = f"{user} is no administrator of {site} any more."
        return CommandOutput({"username": options.user, "made_at": None}, [tried(options, sentence)])
    answer = session.server.put(address, {"dry_run": options.dry_run}, expects="username")
    return CommandOutput(answer, [tried(options, f"{plain(answer['username'])} is an administrator of {site}.")])


def _administrators(options: Namespace, session: CommandSession) -> CommandOutput:
    answer = session.server.get(address_of("sites", options.site, "administrators"), expects="administrators")
    rows = [[each["username"], each["made_by"], each["made_at"]] for each in answer["administrators"]]
    table = Table(_ADMINISTRATORS, rows, empty="The site has no administrators.")
    return CommandOutput(answer, [table], rows="administrators")


# ---- Tokens ----------------------------------------------------------------------------------------------------------


def _configure_token(parser: ArgumentParser) -> None:
    _configure_site(parser)
    what = parser.add_mutually_exclusive_group()
    about = "make a token, and print it; without this and --revoke: list the tokens"
    what.add_argument("--make", choices=("register", "advertise"), help=about)
    what.add_argument("--revoke", type=int, metavar="ID", help="revoke the token of this id")
    add_end(parser)


def _token(options: Namespace, session: CommandSession) -> CommandOutput:
    tokens = address_of("sites", options.site, "tokens")
    if options.revoke is not None:
        delete(session, address_of("sites", options.site, "tokens", str(options.revoke)), options)
        sentence = f"Token {options.revoke} of {plain(options.site)} is revoked; its pilots go on."
        return CommandOutput({"id": options.revoke}, [tried(options, sentence)])
    if options.make is None:
        listed = _listed(options, session)
        rows = [
            [each[name] for name in ("id", "purpose", "expires_at", "revoked_at", "registrations", "created_at")]
            for each in listed
        ]
        return CommandOutput(listed, [Table(_TOKENS, rows, empty="The site has no tokens.")])
    body = {"purpose": options.make, **end_in(options), "dry_run": options.dry_run}
    answer = session.server.post(tokens, body, expects="purpose")
    sentence = f"A token to {options.make} for {plain(options.site)} is made."
    return CommandOutput(answer, [tried(options, sentence) if options.dry_run else plain(answer["token"])])


def _listed(options: Namespace, session: CommandSession) -> list[Mapping[str, object]]:
    pages = session.server.pages(address_of("sites", options.site, "tokens"), query={"page_size": "1000"})
    return [each for page in pages for each in page["results"]]


# ---- Failures --------------------------------------------------------------------------------------------------------


def _configure_failures(parser: ArgumentParser) -> None:
    _configure_site(parser)
    add_limit(parser, what="failures")


def _failures(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("sites", options.site, "failures").removeprefix(API_V1)
    found, notes = rows_within(session, address, query={}, limit=options.limit)
    rows = [
        [each[name] for name in ("host", "ended_at", "phase", "exit_code", "pilot", "leased_at", "reason")]
        for each in found
    ]
    return CommandOutput(found, [Table(_FAILURES, rows, empty="No attempt has failed there within a day."), *notes])


ACTIONS: Mapping[str, AdminAction] = {
    "site-admin": AdminAction(
        "make a user an administrator of a site, end the role, or list them", _configure_administrator, _administrator
    ),
    "site-token": AdminAction("make, revoke or list tokens of a site", _configure_token, _token),
    "site-failures": AdminAction(
        "list attempts that failed at a site within a day", _configure_failures, _failures, is_change=False
    ),
}
