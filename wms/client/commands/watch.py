"""The command that shows jobs on the whole screen, as they change."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import NamedTuple

from ..connection import API, Record
from ..errors import WrongUsageError
from ..terminal.progress import bar_of, ended
from ..terminal.screen import whole_screen
from ..terminal.tables import as_lines
from ..terminal.text import plain, shortened
from .arguments import add_filters, filters_in, of_owner, whole_number
from .command import Command, CommandOutput, CommandSession
from .jobs import table_of_jobs
from .submissions import submission_id

_DEFAULT_S = 2
#: Lines around the table: heading, bar, two empty ones, the table's own heading, and the help.
_FRAME = 6
_HELP = "q ends the view; it ends by itself when all jobs have ended."


class _View(NamedTuple):
    """The state of the jobs at one moment."""

    title: str
    #: Numbers by status.
    counts: Mapping[str, int]
    #: The newest that fit on the screen.
    jobs: list[Record]

    @property
    def is_over(self) -> bool:
        """True when all jobs have ended."""
        return ended(self.counts) == sum(self.counts.values())


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="id of a submission; or parts of the name and filters, as of `list`"
    )
    parser.add_argument(
        "--interval", "-n", type=whole_number, default=_DEFAULT_S, metavar="S", help=f"seconds; default {_DEFAULT_S}"
    )
    add_filters(parser)


def _watch(options: Namespace, session: CommandSession) -> CommandOutput:
    console = session.console
    if not console.is_terminal:
        raise WrongUsageError("watch needs a terminal; use `wms list`, or `wms submit --wait`.")
    if options.json is not None:
        raise WrongUsageError("watch is for people; use `wms list --json`.")
    filters = _filters(options, session)
    with whole_screen(sys.stdout) as screen:
        while True:
            size = console.size
            view = _view(filters, session, most=max(1, size.lines - _FRAME))
            screen.draw(_lines(view, session, width=size.columns), height=size.lines)
            if view.is_over or screen.key_within(max(1, options.interval)) in {"q", "Q"}:
                break
    return CommandOutput(view.counts, [bar_of(view.counts, width=console.size.columns, colours=console.colours)])


def _filters(options: Namespace, session: CommandSession) -> dict[str, str]:
    if len(options.words) == 1 and options.words[0].count("-") == 4:
        return {"job_group_id": submission_id(options.words[0])}
    return of_owner(filters_in(options, options.words), session)


def _view(filters: Mapping[str, str], session: CommandSession, *, most: int) -> _View:
    if set(filters) == {"job_group_id"}:
        submission = session.server.get(f"{API}submissions/{filters['job_group_id']}/", expects="jobs")
        counts, title = submission["jobs"], f"Submission {filters['job_group_id']}  {plain(submission['job_name'])}"
    else:
        summary = session.server.get(f"{API}jobs/summary/", query=filters, expects="results")
        counts = {row["status"]: row["count"] for row in summary["results"]}
        title = "  ".join(f"{name}:{plain(value)}" for name, value in filters.items()) or "All jobs"
    page = session.server.get(f"{API}jobs/", query={**filters, "page_size": str(most)}, expects="results")
    return _View(title, counts, page["results"])


def _lines(view: _View, session: CommandSession, *, width: int) -> list[str]:
    colours, now = session.console.colours, datetime.now(timezone.utc)
    clock = f"{now.astimezone():%H:%M:%S}"
    return [
        colours.heading(shortened(f"{clock}  {view.title}", width)),
        bar_of(view.counts, width=width, colours=colours),
        "",
        *as_lines(table_of_jobs(view.jobs), width=width, colours=colours, now=now),
        "",
        colours.dim(shortened(_HELP, width)),
    ]


COMMANDS = {"watch": Command(_configure, _watch)}
