"""The action of `wms admin` on downtimes of sites, computing elements and queues."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from ..connection import Record
from ..errors import WrongUsageError
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..terminal.text import moment, plain
from .admin_changes import AdminAction, address_of, names_of_place, tried
from .arguments import rfc3339, seconds, whole_number
from .command import CommandOutput, CommandSession

_DOWNTIMES = (
    TableColumn("DOWNTIME", ColumnKind.NUMBER, importance=4),
    TableColumn("PLACE", importance=6),
    TableColumn("FROM", importance=5),
    TableColumn("UNTIL", importance=3),
    TableColumn("REASON", importance=2),
    TableColumn("SOURCE", importance=1),
)


def _configure(parser: ArgumentParser) -> None:
    about = "site, computing element or queue; without options: list its site's downtimes, without a place all"
    parser.add_argument("place", nargs="?", metavar="SITE[/CE[/QUEUE]]", help=about)
    about = "begin, as RFC 3339: 2026-06-01T12:00:00Z; left out of a new one: now"
    parser.add_argument("--from", dest="begin", metavar="TIME", help=about)
    end = parser.add_mutually_exclusive_group()
    about = "duration from the begin, such as 2h or 3d"
    end.add_argument("--for", dest="for_s", type=seconds, metavar="TIME", help=about)
    end.add_argument("--until", metavar="TIME", help="end, as RFC 3339: 2026-06-01T18:00:00Z")
    parser.add_argument("--because", metavar="TEXT", help="reason, which users see")
    about = "id of a downtime to change: what is not given stays"
    parser.add_argument("--change", type=whole_number, metavar="ID", help=about)
    about = "id of a downtime to end: one that runs ends now, one that has not begun is removed"
    parser.add_argument("--end", type=whole_number, metavar="ID", help=about)
    about = "file with the answer of GOCDB's method get_downtime, whose outages are imported (operators)"
    parser.add_argument("--import", dest="document", metavar="FILE", help=about)


def _downtime(options: Namespace, session: CommandSession) -> CommandOutput:
    declared = [options.begin, options.for_s, options.until, options.because]
    is_declared = any(value is not None for value in declared)
    is_changed = options.change is not None
    named = [options.end is not None, options.document is not None, is_declared or is_changed]
    if sum(named) > 1 or (options.place and (named[0] or named[1] or is_changed)):
        raise WrongUsageError(
            "Give a place with times and reason, or --change ID with what changes, or --end ID, or --import FILE."
        )
    if is_changed and not is_declared:
        raise WrongUsageError("Say what changes: --from, --for or --until, or --because.")
    if is_changed:
        return _change(options, session)
    if options.end is not None:
        return _end(options, session)
    if options.document is not None:
        return _import(options, session)
    if is_declared:
        return _declare(options, session)
    query = {"site": options.place.partition("/")[0]} if options.place else {}
    found = list(session.server.rows(address_of("downtimes"), query={**query, "page_size": "1000"}))
    shown = [
        [each["id"], _place(each), moment(each["begins_at"]), moment(each["ends_at"]), each["reason"], each["source"]]
        for each in found
    ]
    return CommandOutput(found, [Table(_DOWNTIMES, shown, empty="No downtime runs or is planned.")])


def _declare(options: Namespace, session: CommandSession) -> CommandOutput:
    if not options.place or options.because is None or (options.for_s is None and options.until is None):
        raise WrongUsageError("A downtime has a place, an end and a reason: give --until, or --for, and --because.")
    body = {
        **dict(zip(("site", "ce", "queue"), names_of_place(options.place))),
        **_times(options),
        "reason": options.because,
        "dry_run": options.dry_run,
    }
    answer = session.server.post(address_of("downtimes"), body, expects="running_jobs", repeatable=True)
    return CommandOutput(answer, [tried(options, f"{_in_words(answer)}. {_jobs(answer)}")])


def _change(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("downtimes", str(options.change))
    stored = session.server.get(address, expects="running_jobs")
    body = {
        **_times(options, stored),
        "reason": stored["reason"] if options.because is None else options.because,
        "dry_run": options.dry_run,
    }
    answer = session.server.put(address, body, expects="running_jobs")
    return CommandOutput(answer, [tried(options, f"{_in_words(answer)}. {_jobs(answer)}")])


def _times(options: Namespace, stored: Record | None = None) -> dict[str, object]:
    """Return begin and end as the command line names them; what it leaves out is as stored, the begin of a new one now.

    Args:
        options: with an end, if nothing is stored.
        stored: the downtime that changes; None: it is new.
    """
    now = datetime.now(tz=timezone.utc)
    given = options.begin if options.begin is not None or stored is None else str(stored["begins_at"])
    begin = now.isoformat() if given is None else rfc3339(given, now=now)
    if options.for_s is not None:
        return {"begins_at": begin, "ends_at": _after(begin, options.for_s)}
    end = options.until if options.until is not None or stored is None else str(stored["ends_at"])
    return {"begins_at": begin, "ends_at": rfc3339(end, now=now)}


def _after(begin: str, seconds: int) -> str:
    return (datetime.fromisoformat(begin) + timedelta(seconds=seconds)).isoformat()


def _end(options: Namespace, session: CommandSession) -> CommandOutput:
    address = address_of("downtimes", str(options.end))
    answer = session.server.get(address, expects="running_jobs")
    if not options.dry_run:
        session.server.delete(address)
    return CommandOutput(answer, [tried(options, f"Ended: {_in_words(answer)}.")])


def _import(options: Namespace, session: CommandSession) -> CommandOutput:
    try:
        document = Path(options.document).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise WrongUsageError(f"{plain(options.document)} cannot be read as UTF-8: {plain(error)}") from error
    body = {"xml": document, "dry_run": options.dry_run}
    answer = session.server.post(address_of("downtimes", "import"), body, expects="unplaced", repeatable=True)
    done = ", ".join(f"{plain(answer[name])} {name}" for name in ("added", "changed", "removed", "unchanged"))
    left_out = [(name.replace("_", " "), answer[name]) for name in _LEFT_OUT]
    return CommandOutput(answer, [tried(options, f"Downtimes: {done}."), Facts(left_out)])


_LEFT_OUT = ("ended", "warnings", "other_services", "other_sites", "unplaced", "unreadable")


def _place(downtime: Record) -> str:
    return "/".join(str(downtime[level]) for level in ("site", "ce", "queue") if downtime[level])


def _in_words(downtime: Record) -> str:
    times = f"{moment(downtime['begins_at'])} to {moment(downtime['ends_at'])}"
    return f"Downtime of {plain(_place(downtime))} from {times}: {plain(downtime['reason'])}"


def _jobs(answer: Record) -> str:
    running, waiting = plain(answer["running_jobs"]), plain(answer["waiting_jobs"])
    return f"Jobs that run there and go on: {running}; that wait and can run nowhere else: {waiting}."


ACTIONS: Mapping[str, AdminAction] = {
    "downtime": AdminAction("list, declare, change, end or import downtimes", _configure, _downtime),
}
