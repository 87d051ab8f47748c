"""The jobs that a command acts on: by ids and ranges, or by filters."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..connection import Record
from ..errors import ClientError, WrongUsageError
from ..statuses import EVERY_STATUS
from ..terminal.console import can_ask
from ..wire.protocol import API_V1
from .arguments import add_filters, filters_in, id_range, ids_in, of_owner
from .command import CommandSession, about_job

#: Instead of ids: they are read from standard input.
STANDARD_INPUT = "-"
#: Ids in one request.
_AT_ONCE = 200


class CancelledError(ClientError):
    """The user has answered a question with no."""

    code = "cancelled"


class JobSelection(NamedTuple):
    """Jobs by ids, or by filters."""

    ids: Sequence[int]
    #: Empty if there are ids.
    filters: Mapping[str, str]


def add_selection(parser: ArgumentParser, *, also_all: bool = False, but_for: Sequence[str] = ()) -> None:
    """Add the arguments that name jobs.

    Args:
        parser: of the command.
        also_all: whether ``--all`` names all of the user's jobs.
        but_for: filters without an option, whose name means something else there.
    """
    parser.add_argument(
        "jobs",
        type=named_job,
        nargs="*",
        metavar="JOB",
        help="ids of jobs, ranges such as 69-75, filters such as status:failed, or - for ids from standard input",
    )
    if also_all:
        parser.add_argument("--all", action="store_true", help="all of your jobs")
    add_filters(parser, but_for=but_for)


def named_job(text: str) -> range | str:
    """Return the ids that a word names, or a word that is a filter or STANDARD_INPUT."""
    return text if ":" in text or text == STANDARD_INPUT else id_range(text)


def selection_in(options: Namespace, session: CommandSession, *, may_name_none: bool = False) -> JobSelection:
    """Return the jobs that the command line names; all of the user's if it *may_name_none* and does.

    Raises:
        WrongUsageError: it names none, or both ids and filters.
    """
    words = [each for word in options.jobs for each in (_from_input() if word == STANDARD_INPUT else [word])]
    ranges = [word for word in words if isinstance(word, range)]
    filters = filters_in(options, (word for word in words if not isinstance(word, range)))
    if ranges and filters:
        raise WrongUsageError("Name jobs by ids or by filters, not by both.")
    if ranges:
        return JobSelection(ids_in(ranges), {})
    if not filters and not may_name_none and not getattr(options, "all", False):
        raise WrongUsageError("Name jobs: ids, ranges such as 69-75, --submission ID, or filters such as --status.")
    return JobSelection((), of_owner(filters, session))


def _from_input() -> list[range]:
    """Return the ids, and ranges, with which the lines of standard input begin: those that `wms list` prints do.

    Raises:
        WrongUsageError: a line begins with something else, or there is none.
    """
    words = [line.split(maxsplit=1)[0] for line in sys.stdin if line.strip()]
    if not words:
        # Filters beside it would else name other jobs.
        raise WrongUsageError("Standard input names no job.")
    try:
        return list(map(id_range, words))
    except ArgumentTypeError as error:
        raise WrongUsageError(f"In standard input, {error}") from error


def count_of(selection: JobSelection, session: CommandSession) -> int:
    """Return the number of jobs; those of filters are counted by the server."""
    if selection.ids:
        return len(selection.ids)
    summary = session.server.get(f"{API_V1}jobs/summary/", query=selection.filters, expects="results")
    return sum(row["count"] for row in summary["results"])


def jobs_of(selection: JobSelection, session: CommandSession) -> Iterator[Record]:
    """Yield the jobs, each as the server answers it; of filters, the oldest first.

    Raises:
        ServerRefusedError: there is no job of an id.
    """
    query = {"ordering": "id", "page_size": "1000"}
    if not selection.ids:
        yield from session.server.rows(f"{API_V1}jobs/", query={**selection.filters, **query})
    for first in range(0, len(selection.ids), _AT_ONCE):
        ids = selection.ids[first : first + _AT_ONCE]
        named = {"id": ",".join(map(str, ids)), "status": EVERY_STATUS}
        of_id = {job["id"]: job for job in session.server.rows(f"{API_V1}jobs/", query={**named, **query})}
        for job_id in ids:
            if job_id not in of_id:
                # Its refusal is a sentence about this job.
                with about_job(job_id):
                    of_id[job_id] = session.server.get(f"{API_V1}jobs/{job_id}/", expects="status")
            yield of_id[job_id]


def confirm(question: str, *, options: Namespace) -> None:
    """Ask at a terminal whether to go on, unless ``--yes`` is given; elsewhere go on.

    Raises:
        CancelledError: the answer is not yes.
    """
    if options.yes or not can_ask():
        return
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CancelledError("Nothing was changed.")
