"""Commands that show jobs: list and show."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from itertools import islice

from ..connection import Record
from ..terminal.console import Note, Part
from ..terminal.tables import ColumnKind, Facts, Table, TableColumn
from ..terminal.text import moment
from ..wire.protocol import API_V1
from .arguments import add_filters, filters_in, of_owner, whole_number
from .command import Command, CommandOutput, CommandSession, about_job
from .selection import add_selection, jobs_of, selection_in

#: Jobs of a list without ``--limit``.
DEFAULT_LIMIT = 30
_MOST_PER_PAGE = 1000
COLUMNS = (
    TableColumn("ID", ColumnKind.NUMBER, importance=9),
    TableColumn("STATUS", ColumnKind.STATUS, importance=8),
    TableColumn("NAME", importance=5),
    TableColumn("SITE", importance=4),
    TableColumn("OWNER", importance=2),
    TableColumn("SUBMITTED", ColumnKind.MOMENT, importance=3),
    TableColumn("REASON", importance=1),
)
_HISTORY = (
    TableColumn("JOB", ColumnKind.NUMBER, importance=3),
    TableColumn("AT", ColumnKind.WHOLE, importance=9),
    TableColumn("STATUS", ColumnKind.STATUS, importance=8),
    TableColumn("REASON", importance=4),
    TableColumn("APPLICATION", importance=1),
    TableColumn("BY", importance=2),
)
#: Fields of a change of status, in the order of the columns behind its time.
_OF_LINE = ("status", "minor_status", "application_status", "source")
#: Fields of a job that ``show`` does not repeat: they are shown in another way.
_ELSEWHERE = frozenset({"description", "usage", "has_output", "job_group_id"})


def table_of_jobs(jobs: Sequence[Record], *, empty: str = "No job matches.") -> Table:
    """Return the table of jobs."""
    names = ("id", "status", "job_name", "site", "owner", "submitted_at", "minor_status")
    return Table(COLUMNS, [[job[name] for name in names] for job in jobs], empty)


def add_limit(parser: ArgumentParser, *, what: str, default: int = DEFAULT_LIMIT) -> None:
    """Add the largest number of rows."""
    about = f"show at most so many {what}; default {default}"
    parser.add_argument("--limit", "-L", type=whole_number, default=default, metavar="N", help=about)


def rows_within(
    session: CommandSession, path: str, *, query: dict[str, str], limit: int
) -> tuple[list[Record], list[Part]]:
    """Return the first rows of a list, and a note if there are more."""
    sized = {**query, "page_size": str(max(1, min(limit + 1, _MOST_PER_PAGE)))}
    rows = list(islice(session.server.rows(f"{API_V1}{path}", query=sized), limit + 1))
    notes: list[Part] = [Note(f"There are more; --limit N shows more than {limit}.")] if len(rows) > limit else []
    return rows[:limit], notes


def _configure_list(parser: ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="parts of the name, or filters such as status:failed")
    add_limit(parser, what="jobs")
    add_filters(parser)


def _list(options: Namespace, session: CommandSession) -> CommandOutput:
    query = of_owner(filters_in(options, options.words), session)
    jobs, notes = rows_within(session, "jobs/", query=query, limit=options.limit)
    return CommandOutput(jobs, [table_of_jobs(jobs), *notes])


def _configure_show(parser: ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--history", action="store_true", help="every change of their status, oldest first")


def _show(options: Namespace, session: CommandSession) -> CommandOutput:
    selection = selection_in(options, session)
    # A table of several needs only the rows of a list.
    if len(selection.ids) == 1 or (selection.ids and options.json is not None):
        jobs = [_job(job_id, session) for job_id in selection.ids]
    else:
        jobs = list(jobs_of(selection, session))
    if options.history:
        jobs = [{**job, "history": session.server.get_list(f"{API_V1}jobs/{job['id']}/history/")} for job in jobs]
    data = jobs[0] if len(selection.ids) == 1 else jobs
    if options.history:
        return CommandOutput(data, [_history(jobs, is_terminal=session.console.is_terminal)])
    return CommandOutput(data, [_facts(jobs[0]) if len(selection.ids) == 1 else table_of_jobs(jobs)])


def _job(job_id: int, session: CommandSession) -> Record:
    with about_job(job_id):
        return session.server.get(f"{API_V1}jobs/{job_id}/", expects="status")


def _history(jobs: Sequence[Record], *, is_terminal: bool) -> Table:
    rows = []
    for job in jobs:
        for line in job["history"]:
            at = moment(line["changed_at"], seconds=True) if is_terminal else line["changed_at"]
            rows.append([job["id"], at, *(line[name] for name in _OF_LINE)])
    return Table(_HISTORY, rows)


def _facts(job: Record) -> Facts:
    facts = [(name, value) for name, value in job.items() if name not in _ELSEWHERE]
    facts.insert(1, ("submission", job["job_group_id"]))
    facts += [(f"used_{name}", value) for name, value in job["usage"].items()]
    facts.append(("output", "yes" if job["has_output"] else "no"))
    shown = {name for name, _ in facts}
    facts += [(name, value) for name, value in job["description"].items() if name not in shown and value not in (0, {})]
    return Facts(facts)


COMMANDS = {"list": Command(_configure_list, _list), "show": Command(_configure_show, _show)}
