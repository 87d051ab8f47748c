"""The command that submits jobs."""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentParser, Namespace
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from uuid import uuid4

from ..connection import Record
from ..descriptions import LocalDescription, digest_of, is_program, read, request_of, yaml_reader
from ..errors import Exit, ServerRefusedError, WrongUsageError
from ..job import counts_of
from ..terminal.console import Note, Part, can_ask
from ..terminal.progress import ProgressBar, ended
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.executables import HEAD_BYTES
from ..wire.protocol import API_V1
from .arguments import whole_number
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
        help="descriptions in JDL, CFG, JSON or YAML (.jdl, .cfg, .json, .yaml, or by content), or one script to run",
    )
    parser.add_argument("--group", metavar="GROUP", help="group in which you act")
    parser.add_argument("--force", action="store_true", help="submit jobs even if they surely fail when they start")
    parser.add_argument(
        "--canary",
        metavar="N",
        type=_canary,
        help="run N jobs first, or one at each site if N is `sites`; the others are held until these are Done",
    )
    parser.add_argument("--dry-run", action="store_true", help="say what fits where; submit and upload nothing")
    parser.add_argument("--wait", action="store_true", help="wait until all jobs have ended; 0 if all are Done, else 1")
    add_description(parser)


def _canary(text: str) -> int | str:
    return text if text == "sites" else whole_number(text)


def _submit(options: Namespace, session: CommandSession) -> CommandOutput:
    jobs = _jobs(options, session)
    if options.dry_run:
        return _rehearse(jobs, options, session)

    @cache
    def upload(path: Path) -> str:
        return str(session.server.upload(f"{API_V1}sandboxes/", path, expects="sandbox")["sandbox"])

    sent = [job.with_names(upload) for job in jobs]
    body = {**request_of(sent), **_envelope(sent, options), "request_id": str(uuid4())}
    answer = _sent(body, options, session)
    for warning in answer["warnings"]:
        sys.stderr.write(f"Warning: {plain(warning)}\n")
    if options.wait:
        return _wait(answer, session, has_canary=options.canary is not None)
    return CommandOutput(answer, _submitted(answer, session))


def _sent(body: Mapping[str, object], options: Namespace, session: CommandSession) -> Record:
    """Submit jobs; those that surely fail when they start only with ``--force``, or if a person at a terminal agrees.

    Raises:
        ServerRefusedError: the server refuses them, or they surely fail.
    """

    def send(**fields: object) -> Record:
        return session.server.post(f"{API_V1}jobs/", {**body, **fields}, expects="job_group_id", repeatable=True)

    if options.force:
        return send()
    try:
        return send(strict=True)
    except ServerRefusedError as error:
        # A server of an earlier version.
        if "strict" in error.errors:
            return send()
        if error.code != "surely_fails":
            raise
        if not can_ask():
            sys.stderr.write("Nothing is submitted, because it would fail when it starts; --force submits it anyway.\n")
            raise
        for sentence in dict.fromkeys(each for sentences in error.errors.values() for each in sentences):
            sys.stderr.write(f"It would fail when it starts: {plain(sentence)}\n")
        sys.stderr.write("Submit anyway? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise
    return send()


def _jobs(options: Namespace, session: CommandSession) -> list[LocalDescription]:
    def read_yaml(text: str) -> Mapping[str, object]:
        return yaml_reader(session.server)(text)

    if len(options.files) == 1 and options.description_executable is None and is_program(Path(options.files[0])):
        # Meant is its job, for which all other options are.
        # Relative, because an absolute path is that of a program on the node.
        options.description_executable, options.files = os.path.relpath(options.files[0]), []
    given = described(options)
    if given and options.files:
        raise WrongUsageError("Describe jobs by files or by options, not by both.")
    if given:
        return read(given, read_yaml=read_yaml)
    if not options.files:
        raise WrongUsageError("Name a file with a description, such as job.jdl, or give at least --executable.")
    return [job for name in options.files for job in read(Path(name), read_yaml=read_yaml)]


def _envelope(jobs: Sequence[Mapping[str, object]], options: Namespace) -> dict[str, object]:
    """Return the fields of the request beside the descriptions."""
    group = options.group or next((job["group"] for job in jobs if "group" in job), None)
    if len(jobs) > 1:
        for job in jobs:
            if isinstance(job, dict):
                job.pop("group", None)
    canary = {} if options.canary is None else {"canary": options.canary}
    return canary if group is None else {**canary, "group": group}


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


def _wait(answer: Record, session: CommandSession, *, has_canary: bool) -> CommandOutput:
    """Show the progress of the jobs until all have ended, or are held because a canary was not Done."""
    # Before the end: who interrupts the waiting needs to know the jobs.
    sys.stderr.write(f"{_told(answer)}\n")
    bar = ProgressBar(sys.stderr, colours=session.console.colours)
    look_s = _FIRST_LOOK_S
    try:
        while True:
            jobs = counts_of(session.server, answer["job_group_id"])
            bar.show(jobs, width=session.console.size.columns)
            held = jobs.get("Held", 0) if has_canary and ended(jobs) > jobs.get("Done", 0) else 0
            if ended(jobs) + held == sum(jobs.values()):
                break
            time.sleep(look_s)
            look_s = min(_LONGEST_LOOK_S, look_s * 1.2)
    finally:
        bar.end()
    number, done = sum(jobs.values()), jobs.get("Done", 0)
    parts: list[Part] = [f"{done} of {number} jobs are Done."]
    if held:
        named = f"--submission {answer['job_group_id']} status:held"
        jobs_stay = "job stays" if held == 1 else "jobs stay"
        sentence = f"{held} {jobs_stay} Held, because a canary did not become Done"
        parts.append(f"{sentence}: `wms release {named}` or `wms kill {named}`.")
    if done < number:
        parts.append(Note(f"`wms failures --submission {answer['job_group_id']}` shows what went wrong."))
    code = Exit.DONE if done == number else Exit.REFUSED
    return CommandOutput({**answer, "statuses": dict(jobs)}, parts, exit_code=code)


# ---- rehearsal -------------------------------------------------------------------------------------------------------


def _rehearse(jobs: Sequence[LocalDescription], options: Namespace, session: CommandSession) -> CommandOutput:
    """Say what a submission would be answered; the names of local files are computed here."""
    coming: dict[str, str] = {}
    contents: dict[str, dict[str, object]] = {}

    def name(path: Path) -> str:
        reference = digest_of(path)
        coming[reference] = path.name
        with path.open("rb") as file:
            head = b64encode(file.read(HEAD_BYTES)).decode()
        contents[reference] = {"size_bytes": path.stat().st_size, "head": head}
        return reference

    sent = [job.with_names(name) for job in jobs]
    body = {**request_of(sent), **_envelope(sent, options), **({"coming_files": coming} if coming else {})}
    answer = _rehearsed({**body, "coming_contents": contents} if coming else body, session)
    number = answer["jobs"]
    # Servers of earlier versions send no findings.
    fails = any(each["surely_fails"] for each in answer.get("findings", ()))
    parts: list[Part] = [f"{number} job{'s' * (number != 1)} would {'fail at the start' if fails else 'be submitted'}."]
    for kind in answer["kinds"]:
        parts += _kind(kind, number=number)
    if answer["uncompared"]:
        parts.append(f"{answer['uncompared']} jobs were not compared: their requirements are too many.")
    parts += [f"Warning: {plain(warning)}" for warning in answer["warnings"]]
    return CommandOutput(answer, parts, exit_code=Exit.REFUSED if fails else Exit.DONE)


def _rehearsed(body: Mapping[str, object], session: CommandSession) -> Record:
    def send(sent: Mapping[str, object]) -> Record:
        return session.server.post(f"{API_V1}jobs/rehearsal/", sent, expects="kinds", repeatable=True)

    try:
        return send(body)
    except ServerRefusedError as error:
        # A server of an earlier version.
        if "coming_contents" not in error.errors:
            raise
    return send({name: value for name, value in body.items() if name != "coming_contents"})


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
