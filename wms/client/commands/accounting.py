"""The command for what was used: jobs, CPU time and core hours of a period."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..connection import Record
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.protocol import API_V1
from .command import Command, CommandOutput, CommandSession

_NUMBERS = (
    TableColumn("STARTED", ColumnKind.NUMBER, importance=3),
    TableColumn("DONE", ColumnKind.NUMBER, importance=5),
    TableColumn("FAILED", ColumnKind.NUMBER, importance=4),
    TableColumn("KILLED", ColumnKind.NUMBER, importance=2),
    TableColumn("SUCCESS", ColumnKind.NUMBER, importance=6),
    TableColumn("CPU HOURS", ColumnKind.NUMBER, importance=7),
    TableColumn("CORE HOURS", ColumnKind.NUMBER, importance=8),
    TableColumn("EFFICIENCY", ColumnKind.NUMBER, importance=6),
)
_NONE = "–"


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        default="group",
        metavar="PROPERTIES",
        help="one or two of group, user, site, type, month and country (of the site), with a comma; default: group",
    )
    parser.add_argument(
        "--since", metavar="DATE", help="first day, in UTC, such as 2026-01-01; default: the year's first"
    )
    parser.add_argument("--until", metavar="DATE", help="last day, in UTC; default: today")
    for name, about in (("vo", "of this VO"), ("group", "of this group"), ("user", "of this user")):
        parser.add_argument(f"--{name}", metavar=name.upper(), help=f"jobs {about} only")
    parser.add_argument("--site", metavar="SITE", help="jobs at this site only")
    parser.add_argument("--type", metavar="TYPE", help="jobs of this type only")


def _accounting(options: Namespace, session: CommandSession) -> CommandOutput:
    names = ("by", "since", "until", "vo", "group", "user", "site", "type")
    query = {name: value for name in names if (value := getattr(options, name)) is not None}
    answer = session.server.get(f"{API_V1}accounting/", query=query, expects="results")
    by = answer["by"]
    rows = [[*(_NONE if row[name] is None else row[name] for name in by), *_numbers(row)] for row in answer["results"]]
    if rows and session.console.is_terminal:
        rows.append(["total", *[""] * (len(by) - 1), *_numbers(answer["total"])])
    columns = (*(TableColumn(plain(name).upper(), importance=9) for name in by), *_NUMBERS)
    parts: list[Part] = [Table(columns, rows, empty="No job that you may see started or ended in this time.")]
    if answer["since"] is not None:
        parts.append(Note(f"From {plain(answer['since'])} to {plain(answer['until'])}, in UTC."))
    left_out = answer["row_count"] - len(answer["results"])
    if left_out:
        sentence = f"{left_out} rows with the fewest core hours are left out; ask for a shorter period or fewer jobs."
        parts.append(Note(sentence))
    return CommandOutput(answer, parts, rows="results")


def _numbers(sums: Record) -> list[object]:
    return [
        *(sums[name] for name in ("started", "done", "failed", "killed")),
        _percent(sums["success"]),
        f"{sums['cpu_hours']:.1f}",
        f"{sums['core_hours']:.1f}",
        _percent(sums["efficiency"]),
    ]


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.1%}"


COMMANDS = {"accounting": Command(_configure, _accounting)}
