"""Commands about many jobs at once: submissions and failures."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ..connection import Record
from ..terminal.console import Note, Part, Verbatim
from ..terminal.progress import bar_of
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..terminal.text import duration, plain
from ..wire.protocol import API_V1
from .arguments import add_filters, filters_in, of_owner, submission_id
from .command import Command, CommandOutput, CommandSession
from .jobs import add_limit, rows_within

_COLUMNS = (
    TableColumn("SUBMISSION", ColumnKind.UUID, importance=7),
    TableColumn("SUBMITTED", ColumnKind.MOMENT, importance=3),
    TableColumn("NAME", importance=4),
    TableColumn("FIRST", ColumnKind.NUMBER, importance=2),
    TableColumn("LAST", ColumnKind.NUMBER, importance=2),
    TableColumn("JOBS", ColumnKind.NUMBER, importance=6),
    TableColumn("STATUSES", importance=5),
)
_PLACES = (
    TableColumn("SITE", importance=2),
    TableColumn("STATUS", ColumnKind.STATUS, importance=3),
    TableColumn("JOBS", ColumnKind.NUMBER),
)
_FAILURES = (
    TableColumn("JOBS", ColumnKind.NUMBER, importance=9),
    TableColumn("EXIT", ColumnKind.NUMBER, importance=8),
    TableColumn("CAUSE", ColumnKind.WHOLE, importance=6),
    TableColumn("REASON", importance=5),
    TableColumn("PLACES", importance=1),
    TableColumn("EXAMPLE", ColumnKind.NUMBER, importance=7),
)
_FACTS = ("job_group_id", "job_group", "job_name", "owner", "group", "submitted_at")
#: Places of a group of failures that are named.
_MOST_PLACES = 3


def statuses(jobs: Record) -> str:
    """Return numbers of jobs by status as text."""
    return ", ".join(f"{number} {status}" for status, number in sorted(jobs.items()))


def _configure_submissions(parser: ArgumentParser) -> None:
    parser.add_argument(
        "submission",
        nargs="?",
        metavar="ID",
        help="only this one, with the places of its jobs; its beginning is enough",
    )
    add_limit(parser, what="submissions")


def _submissions(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.submission is not None:
        return _one(submission_id(options.submission, session), session)
    found, notes = rows_within(session, "submissions/", query={}, limit=options.limit)
    rows = [
        [
            each["job_group_id"],
            each["submitted_at"],
            each["job_group"] or each["job_name"],
            each["first_job_id"],
            each["last_job_id"],
            sum(each["jobs"].values()),
            statuses(each["jobs"]),
        ]
        for each in found
    ]
    return CommandOutput(found, [Table(_COLUMNS, rows, empty="You have no submission."), *notes])


def _one(submission: str, session: CommandSession) -> CommandOutput:
    answer = session.server.get(f"{API_V1}submissions/{submission}/", expects="jobs")
    console, left = session.console, answer.get("time_left_s")
    facts = Facts(
        [
            *((name, answer[name]) for name in _FACTS),
            ("jobs", f"{answer['first_job_id']}-{answer['last_job_id']}"),
            ("outputs", answer["outputs"]),
            *([("time left", f"{duration(left['least'])} to {duration(left['most'])}")] if left else []),
        ]
    )
    rows = [[place["site"] or "", place["status"], place["jobs"]] for place in answer["places"]]
    bar: list[Part] = [Verbatim(bar_of(answer["jobs"], width=console.size.columns, colours=console.colours)), Note("")]
    warnings = [f"Warning: {plain(warning)}" for warning in answer["warnings"]]
    return CommandOutput(
        answer, [*(bar if console.is_terminal else []), facts, *warnings, Note(""), Table(_PLACES, rows)]
    )


def _configure_failures(parser: ArgumentParser) -> None:
    about = "parts of the name, or filters such as site:LCG.Example.org"
    parser.add_argument("words", nargs="*", metavar="WORD", help=about)
    add_filters(parser)


def _failures(options: Namespace, session: CommandSession) -> CommandOutput:
    query = of_owner(filters_in(options, options.words), session)
    answer = session.server.get(f"{API_V1}jobs/failures/", query=query, expects="groups")
    rows = [
        [
            group["jobs"],
            group["exit_code"],
            group.get("cause") or "",
            group.get("title") or group["reason"] or "no reason given",
            _places(group),
            group["example"]["id"],
        ]
        for group in answer["groups"]
    ]
    notes: list[Part] = []
    if not answer["is_whole"]:
        notes.append(Note(f"These are the newest {answer['jobs']} failed jobs; narrow them by filters."))
    if answer["group_count"] > len(answer["groups"]):
        notes.append(Note(f"{answer['group_count'] - len(answer['groups'])} smaller groups are not shown."))
    notes += [
        f"{plain(group['title'])}: {plain(each['sentence'])}"
        for group in answer["groups"]
        for each in group.get("common", ())
    ]
    if answer["groups"]:
        notes.append(Note("`wms logs JOB --stderr` shows the last lines of an example."))
    return CommandOutput(answer, [Table(_FAILURES, rows, empty="No failed job matches."), *notes], rows="groups")


def _places(group: Record) -> list[str]:
    named = [f"{place['site'] or 'no site'} ({place['jobs']})" for place in group["places"][:_MOST_PLACES]]
    more = group["place_count"] - len(named)
    return [*named, f"{more} more"] if more else named


COMMANDS = {
    "submissions": Command(_configure_submissions, _submissions),
    "failures": Command(_configure_failures, _failures),
}
