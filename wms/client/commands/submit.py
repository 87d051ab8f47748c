"""The command that submits jobs."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import uuid4

from ..connection import Record
from ..descriptions import LocalDescription, digest_of, read, request_of
from ..errors import Exit, WrongUsageError
from ..job import counts_of
from ..terminal.console import Note, Part
from ..terminal.progress import ProgressBar, ended
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.protocol import API_V1
from .command import Command, CommandOutput, CommandSession
from .description_options import add_description, described

#: Seconds between two looks at the jobs: the first, and the longest.
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.5, 10.0
_EXCLUDED = (
    TableColumn("CONDITION", importance=2),
    TableColumn("QUEUES", ColumnKind.NUMBER, importance=3),
    TableColumn("WHY"),
)


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="descriptions in JDL, CFG or JSON (.jdl, .cfg, .json, or by their content)",
    )
    parser.add_argument("--group", metavar="GROUP", help="group in which you act")
    parser.add_argument("--dry-run", action="store_true", help="say what fits where; submit and upload nothing")
    parser.add_argument("--wait", action="store_true", help="wait until all jobs have ended; 0 if all are Done, else 1")
    add_description(parser)


def _submit(options: Namespace, session: CommandSession) -> CommandOutput:
    jobs = _jobs(options)
    if options.dry_run:
        return _rehearse(jobs, options, session)

    @cache
    def upload(path: Path) -> str:
        return str(session.server.upload(f"{API_V1}sandboxes/", path, expects="sandbox")["sandbox"])

    sent = [job.with_names(upload) for job in jobs]
    body = {**request_of(sent), **_envelope(sent, options), "request_id": str(uuid4())}
    answer = session.server.post(f"{API_V1}jobs/", body, expects="job_group_id", repeatable=True)
    for warning in answer["warnings"]:
        sys.stderr.write(f"Warning: {plain(warning)}\n")
    if options.wait:
        return _wait(answer, session)
    return CommandOutput(answer, _submitted(answer, session))


def _jobs(options: Namespace) -> list[LocalDescription]:
    given = described(options)
    if given and options.files:
        raise WrongUsageError("Describe jobs by files or by options, not by both.")
    if given:
        return read(given)
    if not options.files:
        raise WrongUsageError("Name a file with a description, such as job.jdl, or give at least --executable.")
    return [job for name in options.files for job in read(Path(name))]


def _envelope(jobs: Sequence[Mapping[str, object]], options: Namespace) -> dict[str, object]:
    """Return the fields of the request beside the descriptions."""
    group = options.group or next((job["group"] for job in jobs if "group" in job), None)
    if len(jobs) > 1:
        for job in jobs:
            if isinstance(job, dict):
                job.pop("group", None)
    return {} if group is None else {"group": group}


def _submitted(answer: Record, session: CommandSession) -> list[Part]:
    ids = [job["id"] for job in answer["jobs"]]
    if not session.console.is_terminal:
        return [Table([TableColumn("ID", ColumnKind.NUMBER)], [[job_id] for job_id in ids])]
    followed = (
        f"wms show {ids[0]}` or `wms logs -f {ids[0]}" if len(ids) == 1 else f"wms watch {answer['job_group_id']}"
    )
    return [_told(answer), Note(f"Follow {'it' if len(ids) == 1 else 'them'} with `{followed}`.")]


def _told(answer: Record) -> str:
    """Return the sentence that names the jobs."""
    ids = [job["id"] for job in answer["jobs"]]
    if len(ids) == 1:
        return f"Job {ids[0]} is submitted."
    return f"{len(ids)} jobs are submitted, {ids[0]} to {ids[-1]}, as submission {answer['job_group_id']}."


# ---- waiting ---------------------------------------------------------------------------------------------------------


def _wait(answer: Record, session: CommandSession) -> CommandOutput:
    """Show the progress of the jobs until all have ended."""
    # Before the end: who interrupts the waiting needs to know the jobs.
    sys.stderr.write(f"{_told(answer)}\n")
    bar = ProgressBar(sys.stderr, colours=session.console.colours)
    look_s = _FIRST_LOOK_S
    try:
        while True:
            jobs = counts_of(session.server, answer["job_group_id"])
            bar.show(jobs, width=session.console.size.columns)
            if ended(jobs) == sum(jobs.values()):
                break
            time.sleep(look_s)
            look_s = min(_LONGEST_LOOK_S, look_s * 1.2)
    finally:
        bar.end()
    number, done = sum(jobs.values()), jobs.get("Done", 0)
    parts: list[Part] = [f"{done} of {number} jobs are Done."]
    if done < number:
        parts.append(Note(f"`wms failures --submission {answer['job_group_id']}` shows what went wrong."))
    code = Exit.DONE if done == number else Exit.REFUSED
    return CommandOutput({**answer, "statuses": dict(jobs)}, parts, exit_code=code)


# ---- rehearsal -------------------------------------------------------------------------------------------------------


def _rehearse(jobs: Sequence[LocalDescription], options: Namespace, session: CommandSession) -> CommandOutput:
    """Say what a submission would be answered; the names of local files are computed here."""
    coming: dict[str, str] = {}

    def name(path: Path) -> str:
        reference = digest_of(path)
        coming[reference] = path.name
        return reference

    sent = [job.with_names(name) for job in jobs]
    body = {**request_of(sent), **_envelope(sent, options), **({"coming_files": coming} if coming else {})}
    answer = session.server.post(f"{API_V1}jobs/rehearsal/", body, expects="kinds", repeatable=True)
    number = answer["jobs"]
    parts: list[Part] = [f"{number} job{'s' * (number != 1)} would be submitted."]
    for kind in answer["kinds"]:
        parts += _kind(kind, number=number)
    if answer["uncompared"]:
        parts.append(f"{answer['uncompared']} jobs were not compared: their requirements are too many.")
    parts += [f"Warning: {plain(warning)}" for warning in answer["warnings"]]
    return CommandOutput(answer, parts)


def _kind(kind: Record, *, number: int) -> list[Part]:
    """Say where jobs with the same requirements fit."""
    whose = "It" if number == 1 else "They" if kind["jobs"] == number else f"{kind['jobs']} of them"
    fit = kind["fit"]
    # Servers of earlier versions send no summary, and no "why" below.
    fitting = "would be Checking" if fit is None else f"can use {fit['fitting']} of {fit['queues']} queues"
    summary = plain(kind.get("summary", fitting))
    parts: list[Part] = [f"{whose} {summary}."]
    if fit is None:
        return parts
    if fit["never"]:
        parts.append(f"No pilot would get them: {plain(fit['never'])}.")
    if fit["exclusions"]:
        rows = [[each["condition"], each["queues"], each.get("why", each["detail"])] for each in fit["exclusions"]]
        parts.append(Table(_EXCLUDED, rows))
    return parts


COMMANDS = {"submit": Command(_configure, _submit)}
