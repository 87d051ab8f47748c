"""Commands of VO managers and operators: states, shares, limits, pauses, pilots, computing elements, black holes."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import quote

from ..connection import Record
from ..errors import ServerRefusedError, WrongUsageError
from ..terminal.console import Note, Part, can_ask
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn, exact
from ..terminal.text import moment, plain
from ..wire.protocol import API_V1
from .arguments import job_id, seconds, whole_number
from .command import Command, CommandOutput, CommandSession
from .jobs import add_limit, rows_within
from .selection import CancelledError

_PARTS = (
    TableColumn("GROUP", importance=5),
    TableColumn("SHARE", ColumnKind.NUMBER, importance=4),
    TableColumn("OF VO", ColumnKind.NUMBER, importance=3),
    TableColumn("IN EFFECT", ColumnKind.NUMBER, importance=2),
    TableColumn("LAST DAY", ColumnKind.NUMBER, importance=1),
)
_LIMITS = (
    TableColumn("LIMIT", ColumnKind.NUMBER, importance=4),
    TableColumn("ON JOBS OF", importance=3),
    TableColumn("ROOM", importance=2),
)
_HISTORY = (
    TableColumn("TIME", ColumnKind.MOMENT, importance=4),
    TableColumn("WHO", importance=3),
    TableColumn("WHAT", importance=2),
    TableColumn("CHANGE", importance=1),
)
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
_BLACK_HOLES = (
    TableColumn("BLACK HOLE", ColumnKind.NUMBER, importance=5),
    TableColumn("HOST", importance=4),
    TableColumn("SITE", importance=3),
    TableColumn("FOUND", ColumnKind.MOMENT, importance=2),
    TableColumn("UNTIL", ColumnKind.MOMENT, importance=3),
    TableColumn("REASON", importance=1),
)
#: {action: state}.
_STATES = {"ban": "banned", "drain": "draining", "allow": "active"}
#: {field of the scope of a limit: what jobs are of it, or at it}.
_SCOPE = {
    "vo": "jobs of this VO",
    "site": "jobs at this site",
    "ce": "jobs at this computing element of the site",
    "group": "jobs of this group",
    "user": "jobs of this user",
    "job_type": "jobs of this type",
}
_BOUNDS = ("running", "waiting", "cpu_s_per_day", "delay_s", "burst")


class _Action(NamedTuple):
    """An action below ``wms admin``."""

    about: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace, CommandSession], CommandOutput]
    is_change: bool = True


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


def _add_reason(parser: ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument("--because", metavar="TEXT", required=required, help="reason, which the history keeps")


def _add_end(parser: ArgumentParser) -> None:
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help="duration, such as 2h or 3d")
    end.add_argument("--until", metavar="TIME", help="end, as RFC 3339: 2026-06-01T12:00:00Z")


def _add_confirm(parser: ArgumentParser) -> None:
    parser.add_argument("--confirm", action="store_true", help="do not ask before a change that stops jobs")


def _end_in(options: Namespace) -> dict[str, object]:
    given = {"for_s": options.for_s, "until": options.until}
    return {name: value for name, value in given.items() if value is not None}


def _address(*names: str) -> str:
    return API_V1 + "".join(f"{quote(name, safe='')}/" for name in names)


def _tried(options: Namespace, sentence: str) -> str:
    return f"Nothing was changed. With the change: {sentence}" if options.dry_run else sentence


def _confirmed(send: Callable[[Record], Record], body: Record, options: Namespace) -> Record:
    """Send a change; if it would stop jobs, ask at a terminal, and send it again.

    Raises:
        CancelledError: the answer is not yes.
        ServerRefusedError: there is nobody to ask, and no ``--confirm``; or something else is wrong.
    """
    try:
        return send(body)
    except ServerRefusedError as error:
        if error.code != "confirmation_needed" or not (options.confirm or can_ask()):
            raise
        if not options.confirm:
            sys.stderr.write(f"{plain(error)} Is this meant? [y/N] ")
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
                raise CancelledError("Nothing was changed.") from error
        return send({**body, "confirmed": error.errors["confirmed"]})


# ---- States ----------------------------------------------------------------------------------------------------------


def _configure_place(parser: ArgumentParser) -> None:
    parser.add_argument("place", metavar="SITE[/CE[/QUEUE]]", help="site, computing element or queue")


def _configure_state(parser: ArgumentParser) -> None:
    _configure_place(parser)
    _add_reason(parser)
    _add_end(parser)


def _set_state(options: Namespace, session: CommandSession) -> CommandOutput:
    names = options.place.split("/")
    if len(names) > 3 or not all(names):
        raise WrongUsageError(f'"{plain(options.place)}" is no place; write SITE, SITE/CE or SITE/CE/QUEUE.')
    levels = [part for pair in zip(("sites", "ces", "queues"), names) for part in pair]
    body = {"state": _STATES[options.action], "dry_run": options.dry_run}
    if options.action != "allow":
        body |= {"reason": options.because, **_end_in(options)}
    answer = session.server.put(_address(*levels, "state"), body, expects="state")
    until = f" until {moment(answer['until'])}" if answer["until"] else ""
    place = plain(answer["place"])
    return CommandOutput(answer, [_tried(options, f"{place[0].upper()}{place[1:]} is {answer['state']}{until}.")])


# ---- Shares ----------------------------------------------------------------------------------------------------------


def _configure_priority(parser: ArgumentParser) -> None:
    parser.add_argument("group", metavar="GROUP", help="name of the group")
    parser.add_argument("share", nargs="?", type=_number, metavar="SHARE", help="its new share; left out: show shares")
    _add_reason(parser, required=False)
    _add_confirm(parser)


def _priority(options: Namespace, session: CommandSession) -> CommandOutput:
    address = _address("groups", options.group, "priority")
    if options.share is None:
        return _shown(session.server.get(address, expects="groups"))
    if options.because is None:
        raise WrongUsageError("Give the reason of the change by --because: the history keeps it.")
    body = {"priority": options.share, "reason": options.because, "dry_run": options.dry_run}
    answer = _confirmed(lambda sent: session.server.put(address, sent, expects="groups"), body, options)
    sentence = f"{plain(answer['group'])} has the share {answer['priority']:.12g}; it takes effect within a second."
    output = _shown(answer)
    return output._replace(parts=[_tried(options, sentence), *output.parts])


def _shown(answer: Record) -> CommandOutput:
    rows = [
        [
            each["group"],
            f"{each['priority']:.12g}",
            *(f"{each[name]:.1%}" for name in ("configured", "in_effect")),
            "" if each["delivered"] is None else f"{each['delivered']:.1%}",
        ]
        for each in answer["groups"]
    ]
    return CommandOutput(answer, [Table(_PARTS, rows)], rows="groups")


def _number(text: str) -> float:
    """Return a number of a command line."""
    try:
        return float(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is not a number; give one such as 1000.") from error


# ---- Limits ----------------------------------------------------------------------------------------------------------


def _configure_limit(parser: ArgumentParser) -> None:
    parser.add_argument("limit", nargs="?", type=whole_number, metavar="ID", help="id of a limit to change")
    for name, about in _SCOPE.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar=name.upper(), help=about)
    parser.add_argument("--running", type=whole_number, metavar="N", help="jobs held by pilots at a time")
    parser.add_argument("--waiting", type=whole_number, metavar="N", help="jobs in queues at a time")
    cpu = "CPU time that jobs report in 24 hours, such as 86400 (seconds) or 24h"
    parser.add_argument("--cpu-per-day", dest="cpu_s_per_day", type=seconds, metavar="TIME", help=cpu)
    parser.add_argument("--delay", dest="delay_s", type=_number, metavar="S", help="mean seconds between two matches")
    parser.add_argument("--burst", type=whole_number, metavar="N", help="matches at once after a pause")
    parser.add_argument("--delete", action="store_true", help="delete the limit")
    _add_confirm(parser)


def _limit(options: Namespace, session: CommandSession) -> CommandOutput:
    scope = {name: getattr(options, name) for name in _SCOPE if getattr(options, name) is not None}
    bounds = {name: getattr(options, name) for name in _BOUNDS if getattr(options, name) is not None}
    if options.limit is None and not options.delete:
        return _add_or_list(scope, bounds, options, session)
    if scope or options.limit is None or options.delete == bool(bounds):
        raise WrongUsageError("Name a limit by its id, and give its bounds or --delete; its jobs stay the same.")
    address = _address("limits", str(options.limit))
    if options.delete:
        limit = session.server.get(address, expects="scope")
        if not options.dry_run:
            session.server.delete(address)
        return CommandOutput(limit, [_tried(options, f"Limit {limit['id']} on {plain(limit['scope'])} is deleted.")])
    body = {**bounds, "dry_run": options.dry_run}
    answer = _confirmed(lambda sent: session.server.put(address, sent, expects="room"), body, options)
    return CommandOutput(answer, [_tried(options, _limit_in_words(answer))])


def _add_or_list(
    scope: Mapping[str, str], bounds: Mapping[str, object], options: Namespace, session: CommandSession
) -> CommandOutput:
    address = _address("limits")
    if not bounds:
        found = list(session.server.rows(address, query={**scope, "page_size": "1000"}))
        rows = [[each["id"], each["scope"], each["room"]] for each in found]
        return CommandOutput(found, [Table(_LIMITS, rows, empty="There is no limit that you may change.")])
    body = {**scope, **bounds, "dry_run": options.dry_run}
    send = session.server.post
    answer = _confirmed(lambda sent: send(address, sent, expects="room", repeatable=True), body, options)
    return CommandOutput(answer, [_tried(options, _limit_in_words(answer))])


def _limit_in_words(limit: Record) -> str:
    return f"Limit {limit['id']} on {plain(limit['scope'])}: {plain(limit['room'])}."


# ---- Pauses ----------------------------------------------------------------------------------------------------------


def _configure_pause(parser: ArgumentParser) -> None:
    parser.add_argument("vo", metavar="VO", help="name of the VO")
    _add_reason(parser, required=False)
    _add_end(parser)
    parser.add_argument("--end", action="store_true", help="let matching go on")


def _pause(options: Namespace, session: CommandSession) -> CommandOutput:
    address, end = _address("vos", options.vo, "pause"), _end_in(options)
    if options.end and (end or options.because is not None):
        raise WrongUsageError("Pause a VO, or end its pause by --end; not both.")
    if options.end:
        if not options.dry_run:
            session.server.delete(address)
        sentence = f"Matching for {plain(options.vo)} goes on."
        return CommandOutput({"vo": options.vo, "paused": False}, [_tried(options, sentence)])
    if not end and options.because is None:
        pause = session.server.get(address, expects="paused")
        facts = [(name, pause[name]) for name in ("vo", "reason", "until")]
        return CommandOutput(pause, [Facts([("status", "paused" if pause["paused"] else "active"), *facts])])
    if not end or options.because is None:
        raise WrongUsageError("A pause has a reason and an end: give --because, and --for or --until.")
    body = {**end, "reason": options.because, "dry_run": options.dry_run}
    pause = session.server.put(address, body, expects="paused")
    sentence = f"Matching for {plain(pause['vo'])} is paused until {moment(pause['until'])}; running jobs go on."
    return CommandOutput(pause, [_tried(options, sentence)])


# ---- Pilots ----------------------------------------------------------------------------------------------------------

_FILTERS = {
    "status": "in this status",
    "site": "of this site",
    "ce": "of this computing element",
    "queue": "of this batch queue",
    "host": "on this host",
}


def _configure_pilots(parser: ArgumentParser) -> None:
    about = "drain: they get no further jobs; kill: they end now, and their jobs wait again"
    parser.add_argument("do", choices=("drain", "kill"), metavar="drain|kill", help=about)
    parser.add_argument("pilots", nargs="*", type=job_id, metavar="PILOT", help="ids of pilots; or filters")
    for name, about in _FILTERS.items():
        parser.add_argument(f"--{name}", metavar=name.upper(), help=about)
    _add_reason(parser)


def _pilots(options: Namespace, session: CommandSession) -> CommandOutput:
    filters = {name: getattr(options, name) for name in _FILTERS if getattr(options, name) is not None}
    if bool(options.pilots) == bool(filters):
        raise WrongUsageError("Name pilots by ids or by filters such as --site; `wms pilots` lists them.")
    chosen: dict[str, object] = {"ids": options.pilots} if options.pilots else {"filter": filters}
    body = {"action": options.do, **chosen, "reason": options.because, "dry_run": options.dry_run}
    answer = session.server.post(f"{_address('pilots', 'bulk')}", body, expects="matched", repeatable=True)
    matched, verb = answer["matched"], {"drain": "drained", "kill": "killed"}[options.do]
    if options.dry_run:
        return CommandOutput(answer, [f"Nothing was changed. {matched} living pilots would be {verb}."])
    parts: list[Part] = [f"{answer['done']} pilots {verb}."]
    if answer["done"] < matched:
        parts.append(Note(f"{matched - answer['done']} of {matched} were {verb} before."))
    return CommandOutput(answer, parts)


# ---- History ---------------------------------------------------------------------------------------------------------


def _configure_history(parser: ArgumentParser) -> None:
    parser.add_argument("--vo", metavar="VO", help="changes that concern this VO")
    parser.add_argument("--who", metavar="USER", help="changes by this user")
    parser.add_argument("--target", metavar="NAME", help='changes of this, such as "group lhcb_user"')
    add_limit(parser, what="changes")


def _history(options: Namespace, session: CommandSession) -> CommandOutput:
    given = {name: getattr(options, name) for name in ("vo", "who", "target")}
    query = {name: value for name, value in given.items() if value is not None}
    found, notes = rows_within(session, "history/", query=query, limit=options.limit)
    rows = [[each["at"], each["who"], each["target"], _facts_in_words(each["facts"])] for each in found]
    return CommandOutput(found, [Table(_HISTORY, rows, empty="Nothing that you may see was changed."), *notes])


def _facts_in_words(facts: Record) -> str:
    """Return what a change did, such as "priority 1000 → 9000; reason a campaign"."""
    changes = {name: value for name, value in facts.items() if name not in {"what", "changes"}}
    changes.update(facts.get("changes") or {})
    what = [] if facts.get("what") in (None, "changed") else [str(facts["what"])]
    return "; ".join([*what, *(f"{name} {exact(value)}" for name, value in _flat(changes) if value not in (None, ""))])


def _flat(changes: Record) -> Iterator[tuple[str, object]]:
    """Yield (name, value), also of the fields of an object."""
    for name, value in changes.items():
        if isinstance(value, Mapping):
            yield from ((f"{name} {inner}", each) for inner, each in _flat(value))
        else:
            yield name, value


# ---- Computing elements and black holes ------------------------------------------------------------------------------


def _configure_ce(parser: ArgumentParser) -> None:
    about = "computing element, or all of a site; left out: all"
    parser.add_argument("place", nargs="?", default="", metavar="SITE[/CE]", help=about)
    parser.add_argument("--ask-again", action="store_true", help="contact it now: end the pause after its failures")


def _ce(options: Namespace, session: CommandSession) -> CommandOutput:
    names = options.place.split("/") if options.place else []
    if len(names) > 2 or not all(names) or (options.ask_again and len(names) < 2):
        raise WrongUsageError(
            "Write SITE/CE for one computing element, which --ask-again needs, or SITE for all there."
        )
    if options.ask_again:
        address = _address("sites", names[0], "ces", names[1], "ask-again")
        ce = session.server.post(address, {"dry_run": options.dry_run}, expects="trouble", repeatable=True)
        return CommandOutput(ce, [_tried(options, f"{plain(ce['ce'])} at {plain(ce['site'])} is contacted again now.")])
    query = {**dict(zip(("site", "ce"), names)), "page_size": "1000"}
    found = list(session.server.rows(_address("ces"), query=query))
    if names and not found:
        raise _not_found(f"There is no computing element {plain(options.place)} for you; `wms admin ce` lists them.")
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
    parser.add_argument("--site", metavar="SITE", help="at this site")
    parser.add_argument("--host", metavar="HOST", help="of this host")


def _black_hole(options: Namespace, session: CommandSession) -> CommandOutput:
    query = {name: getattr(options, name) for name in ("site", "host") if getattr(options, name) is not None}
    if (options.id is not None and query) or (options.lift and options.id is None):
        raise WrongUsageError("Name a black hole by its id, to see or lift it, or list those of a site or a host.")
    if options.lift:
        address = _address("black-holes", str(options.id), "lift")
        lifted = session.server.post(address, {"dry_run": options.dry_run}, expects="in_force", repeatable=True)
        sentence = f"{plain(lifted['host'])} at {plain(lifted['site'])} gets jobs again."
        return CommandOutput(lifted, [_tried(options, sentence)])
    query |= {"in_force": "true"} if options.id is None else {}
    found = session.server.rows(_address("black-holes"), query={**query, "page_size": "1000"})
    if options.id is not None:
        for each in found:
            if each["id"] == options.id:
                return CommandOutput(each, [Facts([*each.items()])])
        raise _not_found(f"There is no black hole {options.id} for you; `wms admin black-hole` lists those in force.")
    black_holes = list(found)
    names = ("id", "host", "site", "found_at", "until", "reason")
    rows = [[each[name] for name in names] for each in black_holes]
    return CommandOutput(black_holes, [Table(_BLACK_HOLES, rows, empty="No host is a black hole now.")])


def _not_found(detail: str) -> ServerRefusedError:
    return ServerRefusedError({"code": "not_found", "detail": detail}, status=404)


_ACTIONS: Mapping[str, _Action] = {
    "ban": _Action("let a place take no jobs and no pilots", _configure_state, _set_state),
    "drain": _Action("let running jobs of a place go on, and no new ones start", _configure_state, _set_state),
    "allow": _Action("let a place take jobs and pilots again", _configure_place, _set_state),
    "priority": _Action("show the shares of a VO's groups, or change that of one", _configure_priority, _priority),
    "limit": _Action("list limits with their room; add, change or delete one", _configure_limit, _limit),
    "pause": _Action("pause matching for a VO, or let it go on", _configure_pause, _pause),
    "pilots": _Action("drain or kill pilots", _configure_pilots, _pilots),
    "history": _Action(
        "list changes of the configuration, newest first", _configure_history, _history, is_change=False
    ),
    "ce": _Action("show the health of computing elements; contact one again now", _configure_ce, _ce),
    "black-hole": _Action("list hosts that get no jobs; let one get jobs again", _configure_black_hole, _black_hole),
}
COMMANDS = {"admin": Command(_configure, _admin)}
