"""The command that shows jobs on the whole screen, as they change."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import NamedTuple

from ..connection import Record
from ..errors import ServerRefusedError, WrongUsageError
from ..job import counts_of
from ..terminal.console import Verbatim
from ..terminal.progress import bar_of, ended
from ..terminal.screen import whole_screen
from ..terminal.tables import as_lines
from ..terminal.text import plain, shortened
from ..wire.protocol import API_V1
from .arguments import add_filters, filters_in, of_owner, submission_id, whole_number
from .command import Command, CommandOutput, CommandSession
from .jobs import table_of_jobs

_DEFAULT_S = 2
_CHANGES = f"{API_V1}jobs/changes/"
#: Statuses of jobs that run, have failed, wait, and are done.
_KINDS = (
    ("Running", "Completing", "Stalled", "Matched"),
    ("Failed", "Killed"),
    ("Waiting", "Held", "Checking", "Received", "Rescheduled"),
    ("Done",),
)
#: Changes in one answer; after more, the lists are read without knowing which.
_MOST_CHANGES = 100
#: Seconds after which the lists are read again, whether something has changed or not.
_LONGEST_UNREAD_S = 60.0
#: Lines around the table: heading, bar, two empty ones, the table's own heading, and the help.
_FRAME = 6
_HELP = "q ends the view; it ends by itself when all jobs have ended."


class _Subject(NamedTuple):
    title: str
    filters: Mapping[str, str]
    #: Ids, of a submission; None: not known.
    ids: range | None


class _View(NamedTuple):
    """The state of the jobs at one moment."""

    #: Numbers by status.
    counts: Mapping[str, int]
    #: As many as fit on the screen: of those that run, failed, wait and are done the newest.
    jobs: list[Record]

    @property
    def is_over(self) -> bool:
        """True when all jobs have ended."""
        return ended(self.counts) == sum(self.counts.values())


class _Changes:
    """The stream of changes, which says at less cost than the lists whether there is something new in them.

    Args:
        session: of the command.
        ids: changes of other jobs are left out; None: those of all jobs that the user may see count.
    """

    def __init__(self, session: CommandSession, *, ids: range | None) -> None:
        self._session, self._ids = session, ids
        self._cursor = ""
        self._begin()

    def are_there(self) -> bool:
        """Return whether jobs have changed since the last call, or may have."""
        query: Mapping[str, str | int] = {"since": self._cursor, "page_size": _MOST_CHANGES}
        try:
            answer = self._session.server.get(_CHANGES, query=query, expects="cursor")
        except ServerRefusedError as error:
            if error.code != "cursor_expired":
                raise
            self._begin()
            return True
        if answer["more"]:
            self._begin()
            return True
        self._cursor = str(answer["cursor"])
        return any(self._ids is None or change["job_id"] in self._ids for change in answer["changes"])

    def _begin(self) -> None:
        self._cursor = str(self._session.server.get(_CHANGES, expects="cursor")["cursor"])


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
    subject = _subject(_filters(options, session), session)
    changes = _Changes(session, ids=subject.ids)
    view: _View | None = None
    lines, read_again_at = 0, 0.0
    with whole_screen(sys.stdout) as screen:
        while True:
            size = console.size
            # In this order: what changes while the lists are read is in them, or makes them be read again.
            if view is None or changes.are_there() or size.lines > lines or time.monotonic() > read_again_at:
                view = _view(subject, session, most=max(1, size.lines - _FRAME))
                lines, read_again_at = size.lines, time.monotonic() + _LONGEST_UNREAD_S
            screen.draw(_lines(subject, view, session, width=size.columns), height=size.lines)
            if view.is_over or screen.key_within(max(1, options.interval)) in {"q", "Q"}:
                break
    return CommandOutput(
        view.counts, [Verbatim(bar_of(view.counts, width=console.size.columns, colours=console.colours))]
    )


def _filters(options: Namespace, session: CommandSession) -> dict[str, str]:
    if len(options.words) == 1 and options.words[0].count("-") == 4:
        return {"job_group_id": submission_id(options.words[0], session)}
    return of_owner(filters_in(options, options.words), session)


def _subject(filters: dict[str, str], session: CommandSession) -> _Subject:
    if set(filters) == {"job_group_id"}:
        submission = session.server.get(f"{API_V1}submissions/{filters['job_group_id']}/", expects="jobs")
        title = f"Submission {filters['job_group_id']}  {plain(submission['job_name'])}"
        return _Subject(title, filters, range(submission["first_job_id"], submission["last_job_id"] + 1))
    title = "  ".join(f"{name}:{plain(value)}" for name, value in filters.items()) or "All jobs"
    return _Subject(title, filters, None)


def _view(subject: _Subject, session: CommandSession, *, most: int) -> _View:
    filters = subject.filters
    if subject.ids is not None:
        counts = counts_of(session.server, filters["job_group_id"])
    else:
        summary = session.server.get(f"{API_V1}jobs/summary/", query=filters, expects="results")
        counts = {row["status"]: row["count"] for row in summary["results"]}
    if "status" in filters:
        return _View(counts, _newest(filters, session, most=most))
    numbers = [sum(counts.get(status, 0) for status in kind) for kind in _KINDS]
    jobs: list[Record] = []
    for kind, lines in zip(_KINDS, lines_of_kinds(numbers, most=most)):
        if lines:
            jobs += _newest({**filters, "status": ",".join(kind)}, session, most=lines)
    return _View(counts, jobs)


def _newest(filters: Mapping[str, str], session: CommandSession, *, most: int) -> list[Record]:
    page = session.server.get(f"{API_V1}jobs/", query={**filters, "page_size": str(most)}, expects="results")
    return list(page["results"])


def lines_of_kinds(numbers: Sequence[int], *, most: int) -> list[int]:
    """Return how many jobs of each kind are shown: each has its part, and what one does not need goes to the first.

    Args:
        numbers: of the jobs of each kind, in the order of importance.
        most: lines of all together.
    """
    lines = [min(number, -(-most // len(numbers))) for number in numbers]
    for position in reversed(range(len(lines))):
        lines[position] = max(0, lines[position] - max(0, sum(lines) - most))
    for position, number in enumerate(numbers):
        lines[position] += min(number - lines[position], most - sum(lines))
    return lines


def _lines(subject: _Subject, view: _View, session: CommandSession, *, width: int) -> list[str]:
    colours, now = session.console.colours, datetime.now(timezone.utc)
    clock = f"{now.astimezone():%H:%M:%S}"
    return [
        colours.heading(shortened(f"{clock}  {subject.title}", width)),
        bar_of(view.counts, width=width, colours=colours),
        "",
        *as_lines(table_of_jobs(view.jobs), width=width, colours=colours, now=now),
        "",
        colours.dim(shortened(_HELP, width)),
    ]


COMMANDS = {"watch": Command(_configure, _watch)}
