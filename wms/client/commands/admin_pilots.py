"""Actions of `wms admin` on the supply: pilots, computing elements, black holes, and who ran where."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import datetime, timezone

from ..errors import WrongUsageError
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..terminal.text import plain
from . import resources
from .admin_changes import (
    AdminAction,
    add_reason,
    address_of,
    not_found,
    reason_in,
    tried,
)
from .arguments import job_id, rfc3339, whole_number
from .command import CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_CES = (
    TableColumn("SITE", importance=6),
    TableColumn("CE", importance=7),
    TableColumn("STATE", ColumnKind.STATUS, importance=5),
    TableColumn("FAILURES", ColumnKind.NUMBER, importance=3),
    TableColumn("FREE SLOTS", ColumnKind.NUMBER, importance=3),
    TableColumn("LAST ANSWER", ColumnKind.MOMENT, importance=2),
    TableColumn("PAUSED UNTIL", ColumnKind.MOMENT, importance=4),
    TableColumn("TROUBLE", importance=1),
)
_LEASES = (
    TableColumn("JOB", ColumnKind.NUMBER, importance=9),
    TableColumn("OWNER", importance=8),
    TableColumn("GROUP", importance=3),
    TableColumn("PILOT", ColumnKind.NUMBER, importance=2),
    TableColumn("HOST", importance=7),
    TableColumn("SITE", importance=6),
    TableColumn("FROM", ColumnKind.MOMENT, importance=5),
    TableColumn("TO", ColumnKind.MOMENT, importance=4),
    TableColumn("END", importance=1),
)
_BLACK_HOLES = (
    TableColumn("BLACK HOLE", ColumnKind.NUMBER, importance=5),
    TableColumn("HOST", importance=4),
    TableColumn("SITE", importance=3),
    TableColumn("FOUND", ColumnKind.MOMENT, importance=2),
    TableColumn("UNTIL", ColumnKind.MOMENT, importance=3),
    TableColumn("REASON", importance=1),
)


# ---- Pilots ----------------------------------------------------------------------------------------------------------

_LIST = resources.COMMANDS["pilots"]


def _configure_pilots(parser: ArgumentParser) -> None:
    about = "drain: they get no further jobs; kill: they end now, and their jobs wait again; list: as `wms pilots`"
    parser.add_argument("do", choices=("list", "drain", "kill"), metavar="list|drain|kill", help=about)
    parser.add_argument("pilots", nargs="*", type=job_id, metavar="PILOT", help="ids of pilots; or filters")
    _LIST.configure(parser)
    add_reason(parser, required=False)


def _pilots(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.do == "list":
        if options.pilots or options.because is not None:
            raise WrongUsageError("A list takes filters such as --site; leave out the ids and --because.")
        return _LIST.run(options, session)
    if options.summary or options.hours is not None:
        raise WrongUsageError("--summary and --hours are of a list; leave them out.")
    if options.because is None:
        raise WrongUsageError("Give the reason by --because: the history keeps it.")
    filters = {name: getattr(options, name) for name in resources.PILOT_FILTERS if getattr(options, name) is not None}
    if bool(options.pilots) == bool(filters):
        raise WrongUsageError("Name pilots by ids or by filters such as --site; `wms pilots` lists them.")
    chosen: dict[str, object] = {"ids": options.pilots} if options.pilots else {"filter": filters}
    body = {"action": options.do, **chosen, "reason": options.because, "dry_run": options.dry_run}
    answer = session.server.post(f"{address_of('pilots', 'bulk')}", body, expects="matched", repeatable=True)
    matched, verb = answer["matched"], {"drain": "drained", "kill": "killed"}[options.do]
    if options.dry_run:
        return CommandOutput(answer, [f"Nothing was changed. {plain(matched)} living pilots would be {verb}."])
    parts: list[Part] = [f"{plain(answer['done'])} pilots {verb}."]
    if answer["done"] < matched:
        parts.append(Note(f"{matched - answer['done']} of {matched} were {verb} before."))
    return CommandOutput(answer, parts)


# ---- Computing elements and black holes ------------------------------------------------------------------------------


def _configure_ce(parser: ArgumentParser) -> None:
    about = "computing element, or all of a site; left out: all"
    parser.add_argument("place", nargs="?", default="", metavar="SITE[/CE]", help=about)
    parser.add_argument("--ask-again", action="store_true", help="contact it now: end the pause after its failures")
    add_reason(parser, required=False)


def _ce(options: Namespace, session: CommandSession) -> CommandOutput:
    names = options.place.split("/") if options.place else []
    if len(names) > 2 or not all(names) or (options.ask_again and len(names) < 2):
        raise WrongUsageError(
            "Write SITE/CE for one computing element, which --ask-again needs, or SITE for all there."
        )
    if options.ask_again:
        address = address_of("sites", names[0], "ces", names[1], "ask-again")
        body = {"dry_run": options.dry_run, **reason_in(options)}
        ce = session.server.post(address, body, expects="trouble", repeatable=True)
        return CommandOutput(ce, [tried(options, f"{plain(ce['ce'])} at {plain(ce['site'])} is contacted again now.")])
    query = {**dict(zip(("site", "ce"), names)), "page_size": "1000"}
    found = list(session.server.rows(address_of("ces"), query=query))
    if names and not found:
        raise not_found(f"There is no computing element {plain(options.place)} for you; `wms admin ce` lists them.")
    if len(names) == 2:
        facts = [("status" if name == "state" else name, _one_line(value)) for name, value in found[0].items()]
        return CommandOutput(found[0], [Facts(facts)])
    columns = ("site", "ce", "state", "failures", "free_slots", "asked_at", "send_after")
    rows = [[*(ce[name] for name in columns), _one_line(ce["trouble"] or ce["stalls"])] for ce in found]
    return CommandOutput(found, [Table(_CES, rows, empty="There is no computing element for you.")])


def _one_line(value: object) -> object:
    return value.replace("\n", " ") if isinstance(value, str) else value


def _configure_black_hole(parser: ArgumentParser) -> None:
    parser.add_argument(
        "id",
        nargs="?",
        type=whole_number,
        metavar="ID",
        help="id of one, also of a lifted one; left out: those in force",
    )
    parser.add_argument("--lift", action="store_true", help="let the host get jobs again")
    add_reason(parser, required=False)
    parser.add_argument("--site", metavar="SITE", help="at this site")
    parser.add_argument("--host", metavar="HOST", help="of this host")


def _black_hole(options: Namespace, session: CommandSession) -> CommandOutput:
    query = {name: getattr(options, name) for name in ("site", "host") if getattr(options, name) is not None}
    if (options.id is not None and query) or (options.lift and options.id is None):
        raise WrongUsageError("Name a black hole by its id, to see or lift it, or list those of a site or a host.")
    if options.lift:
        address = address_of("black-holes", str(options.id), "lift")
        body = {"dry_run": options.dry_run, **reason_in(options)}
        lifted = session.server.post(address, body, expects="in_force", repeatable=True)
        sentence = f"{plain(lifted['host'])} at {plain(lifted['site'])} gets jobs again."
        return CommandOutput(lifted, [tried(options, sentence)])
    query |= {"in_force": "true"} if options.id is None else {}
    found = session.server.rows(address_of("black-holes"), query={**query, "page_size": "1000"})
    if options.id is not None:
        for each in found:
            if each["id"] == options.id:
                return CommandOutput(each, [Facts([*each.items()])])
        raise not_found(f"There is no black hole {options.id} for you; `wms admin black-hole` lists those in force.")
    black_holes = list(found)
    names = ("id", "host", "site", "found_at", "until", "reason")
    rows = [[each[name] for name in names] for each in black_holes]
    return CommandOutput(black_holes, [Table(_BLACK_HOLES, rows, empty="No host is a black hole now.")])


# ---- Leases ----------------------------------------------------------------------------------------------------------


def _configure_leases(parser: ArgumentParser) -> None:
    for name, about in (("host", "on this host"), ("site", "at this site"), ("owner", "of this user")):
        parser.add_argument(f"--{name}", metavar=name.upper(), help=about)
    parser.add_argument("--job", type=job_id, metavar="JOB", help="of this job")
    parser.add_argument("--pilot", type=job_id, metavar="PILOT", help="of this pilot")
    parser.add_argument(
        "--since", metavar="TIME", help="open at this time or later: 12h, 2d, 2026-06-01 (UTC); default: a day ago"
    )
    parser.add_argument("--until", metavar="TIME", help="begun before this time")
    add_limit(parser, what="leases")


def _leases(options: Namespace, session: CommandSession) -> CommandOutput:
    names = ("host", "site", "owner", "job", "pilot", "since", "until")
    query = {name: str(value) for name in names if (value := getattr(options, name)) is not None}
    now = datetime.now(timezone.utc)
    query |= {name: rfc3339(query[name], now=now) for name in ("since", "until") if name in query}
    found, notes = rows_within(session, "leases/", query=query, limit=options.limit)
    shown = ("job", "owner", "group", "pilot", "host", "site", "leased_at", "ended_at", "end_reason")
    rows = [[each[name] for name in shown] for each in found]
    return CommandOutput(found, [Table(_LEASES, rows, empty="No lease of your VOs was open then."), *notes])


ACTIONS: Mapping[str, AdminAction] = {
    "pilots": AdminAction("list, drain or kill pilots", _configure_pilots, _pilots),
    "ce": AdminAction("show the health of computing elements; contact one again now", _configure_ce, _ce),
    "black-hole": AdminAction(
        "list hosts that get no jobs; let one get jobs again", _configure_black_hole, _black_hole
    ),
    "leases": AdminAction("show who ran where and when", _configure_leases, _leases, is_change=False),
}
