"""Commands that fetch what jobs have written: output and logs."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from ..connection import Record
from ..errors import ClientError, Exit, ServerRefusedError, WrongUsageError
from ..outputs import MOST_MB, bounded, download_output, leads_out, write
from ..statuses import ENDED
from ..terminal.console import Part, Verbatim
from ..terminal.progress import ProgressBar
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.archives import ArchiveError, ArchiveReader
from ..wire.protocol import API_V1
from .arguments import megabytes
from .command import Command, CommandOutput, CommandSession, about_job, make_directory
from .selection import add_selection, jobs_of, selection_in

#: Seconds between two looks at a job's last lines; a pilot sends them about once a minute.
_LOOK_S = 2.0


#: The same while it waits: what it waits for is said.
_LOOK_WAITING_S = 10.0
#: Outputs that are fetched at the same time.
_AT_ONCE = 6


class BadArchiveError(ClientError):
    """The archive of an output cannot be unpacked."""

    code = "damaged_archive"


def _configure_output(parser: ArgumentParser) -> None:
    add_selection(parser, also_all=True)
    parser.add_argument(
        "--directory",
        "-d",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where directories of jobs are made; default: the current one",
    )
    parser.add_argument("--archive", action="store_true", help="keep the .tar.gz instead of a directory")
    parser.add_argument("--force", action="store_true", help="fetch again what is there")
    parser.add_argument(
        "--max-size",
        type=megabytes,
        default=MOST_MB,
        metavar="MB",
        help=f"largest output of one job, packed or unpacked, such as 5GB; default: {MOST_MB}",
    )


def _output(options: Namespace, session: CommandSession) -> CommandOutput:
    selection = selection_in(options, session)
    make_directory(options.directory)
    to_fetch, there, without = {}, [], []
    for job in jobs_of(selection, session):
        target = options.directory / (f"{job['id']}.tar.gz" if options.archive else str(job["id"]))
        if not job["has_output"]:
            without.append(job["id"])
        elif target.exists() and not options.force:
            there.append(job["id"])
        else:
            to_fetch[job["id"]] = target
    _fetch_all(to_fetch, session, most_mb=options.max_size)
    fetched = list(to_fetch)
    rows = [[number, str(target)] for number, target in to_fetch.items()]
    if selection.ids and without and not fetched and not there:
        raise ServerRefusedError(
            {
                "code": "no_output",
                "detail": f"Job {without[0]} has no output, or none yet; try again when it has ended.",
            },
            status=404,
        )
    data = {"fetched": fetched, "there": there, "without_output": without}
    parts: list[Part] = [
        Table([TableColumn("JOB", ColumnKind.NUMBER, 2), TableColumn("OUTPUT")], rows, empty="Nothing was fetched.")
    ]
    if session.console.is_terminal and there:
        parts.append(f"{len(there)} were there already; --force fetches them again.")
    if session.console.is_terminal and without:
        parts.append(f"{len(without)} have no output, or none yet.")
    return CommandOutput(data, parts)


def _fetch_all(targets: Mapping[int, Path], session: CommandSession, *, most_mb: int) -> None:
    """Fetch the outputs of jobs, several at a time; after an error those that have begun, and no others."""
    bar = ProgressBar(sys.stderr, colours=session.console.colours)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        begun = [pool.submit(_fetch, number, target, session, most_mb=most_mb) for number, target in targets.items()]
        try:
            for number, each in enumerate(as_completed(begun), start=1):
                each.result()
                bar.draw(f"{number}/{len(begun)} fetched", part=number / len(begun), width=session.console.size.columns)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            bar.remove()


def _fetch(number: int, target: Path, session: CommandSession, *, most_mb: int) -> None:
    """Fetch the output of a job; its place is empty, or as it was, until all of it is there."""
    archive = target if target.name.endswith(".tar.gz") else target.with_name(f".{number}.tar.gz")
    download_output(session.server, number, archive, most_mb=most_mb)
    if archive == target:
        return
    unpacked = target.with_name(f".{number}.unpacked")
    shutil.rmtree(unpacked, ignore_errors=True)
    try:
        _unpack(archive, unpacked, most_mb=most_mb)
        if target.exists():
            shutil.rmtree(target)
        unpacked.replace(target)
    except (OSError, ArchiveError) as error:
        raise BadArchiveError(f"The output of job {number} cannot be unpacked into {target} ({error}).") from error
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)
        archive.unlink()


def _unpack(archive: Path, directory: Path, *, most_mb: int) -> None:
    """Write the ordinary files of an archive below a directory; nothing outside it, and no links."""
    directory.mkdir()
    with archive.open("rb") as content:
        reader = ArchiveReader(content)
        for member in bounded(reader, most_mb=most_mb):
            if leads_out(member.name):
                raise BadArchiveError(
                    f"The archive has a file outside its directory, {plain(member.name)}; not unpacked."
                )
            write(reader, member, directory)


# ---- logs ------------------------------------------------------------------------------------------------------------


def _configure_logs(parser: ArgumentParser) -> None:
    add_selection(parser)
    parser.add_argument("--follow", "-f", action="store_true", help="show new lines of one job until it has ended")
    parser.add_argument("--stderr", action="store_true", help="standard error instead of standard output")


def _logs(options: Namespace, session: CommandSession) -> CommandOutput:
    selection = selection_in(options, session)
    ids = selection.ids or [job["id"] for job in jobs_of(selection, session)]
    stream = "std_error" if options.stderr else "std_output"
    if options.follow:
        if options.json is not None:
            raise WrongUsageError("--json shows the last lines once; leave out --follow.")
        if len(ids) != 1:
            raise WrongUsageError(f"--follow shows one job, and {len(ids)} are named.")
        return _follow(ids[0], session, stream=stream)
    peeks: list[Record] = []
    parts: list[Part] = []
    for number in ids:
        with about_job(number):
            peek = session.server.get(f"{API_V1}jobs/{number}/peek/", expects="std_output")
        peeks.append(peek)
        if len(ids) > 1:
            parts.append(f"==> Job {number}, {peek['status']} <==")
        parts += _lines(peek[stream], session) or _nothing(peek, session)
    return CommandOutput(peeks[0] if len(peeks) == 1 else peeks, parts or ["No job matches."] * (not ids))


def _follow(number: int, session: CommandSession, *, stream: str) -> CommandOutput:
    """Show new lines of a job until it has ended; while it waits, what it waits for."""
    shown, why = "", ""
    while True:
        with about_job(number):
            peek = session.server.get(f"{API_V1}jobs/{number}/peek/", expects="std_output")
        if peek["status"] == "Waiting":
            now = str(session.server.get(f"{API_V1}jobs/{number}/explain/", expects="summary")["summary"])
            # Without the time until its start, which changes all the time.
            if now.partition(". ")[0] != why.partition(". ")[0]:
                sys.stderr.write(f"Job {number} waits. {plain(now)}\n")
            why = now
        for line in _lines(added(shown, peek[stream]), session, is_part=True):
            session.console.write(str(line))
        shown = peek[stream] or shown
        if peek["status"] in ENDED:
            return CommandOutput(peek, [], exit_code=Exit.DONE)
        time.sleep(_LOOK_S if peek["status"] != "Waiting" else _LOOK_WAITING_S)


def added(before: str, now: str) -> str:
    """Return the text that was appended; both are the last characters of a text that grows."""
    if now.startswith(before):
        return now[len(before) :]
    # NB: the end of what was shown is the beginning of what is there now, unless more came than is kept.
    for start in range(max(0, len(before) - len(now)), len(before)):
        if now.startswith(before[start:]):
            return now[len(before) - start :]
    return f"\n…\n{now}" if now else ""


def _lines(text: str, session: CommandSession, *, is_part: bool = False) -> list[Part]:
    """Return the text as one part; at a terminal without control characters."""
    if session.console.is_terminal:
        text = "\n".join(plain(line.replace("\t", "    ").rstrip("\r")) for line in text.split("\n"))
    if is_part:
        return [Verbatim(text)] if text else []
    return [Verbatim(text.rstrip("\n"))] if text else []


def _nothing(peek: Record, session: CommandSession) -> list[Part]:
    if not session.console.is_terminal:
        return []
    arrived = "it wrote no output" if peek["status"] in ENDED else "nothing of its output has arrived yet"
    return [f"Job {peek['id']} is {peek['status']}; {arrived}."]


COMMANDS = {
    "output": Command(_configure_output, _output),
    "logs": Command(_configure_logs, _logs),
}
