"""Commands that fetch what jobs have written: output and logs."""

from __future__ import annotations

import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ..connection import Record
from ..errors import ClientError, Exit, ServerRefusedError, WrongUsageError
from ..outputs import MOST_MB, bounded, download_output, leads_out, write
from ..terminal.console import Part, Verbatim
from ..terminal.tables import ColumnKind, Table, TableColumn
from ..terminal.text import plain
from ..wire.archives import ArchiveError, ArchiveReader
from ..wire.protocol import API_V1
from .arguments import job_id, megabytes
from .command import Command, CommandOutput, CommandSession, about_job, make_directory
from .selection import add_selection, jobs_of, selection_in

_ENDED = frozenset({"Done", "Failed", "Killed", "Deleted"})
#: Seconds between two looks at a job's last lines; a pilot sends them about once a minute.
_LOOK_S = 2.0


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
    fetched, there, without = [], [], []
    for job in jobs_of(selection, session):
        target = options.directory / (f"{job['id']}.tar.gz" if options.archive else str(job["id"]))
        if not job["has_output"]:
            without.append(job["id"])
        elif target.exists() and not options.force:
            there.append(job["id"])
        else:
            _fetch(job["id"], target, session, most_mb=options.max_size)
            fetched.append(job["id"])
            if session.console.is_terminal:
                sys.stderr.write(f"\r{len(fetched)} fetched\x1b[K")
    if fetched and session.console.is_terminal:
        sys.stderr.write("\r\x1b[K")
    rows = (
        [[number, str(options.directory / str(number))] for number in fetched]
        if not options.archive
        else [[number, str(options.directory / f"{number}.tar.gz")] for number in fetched]
    )
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
    parser.add_argument("job", type=job_id, metavar="JOB", help="id of the job")
    parser.add_argument("--follow", "-f", action="store_true", help="show new lines until the job has ended")
    parser.add_argument("--stderr", action="store_true", help="standard error instead of standard output")


def _logs(options: Namespace, session: CommandSession) -> CommandOutput:
    if options.follow and options.json is not None:
        raise WrongUsageError("--json shows the last lines once; leave out --follow.")
    path, stream = f"{API_V1}jobs/{options.job}/peek/", "std_error" if options.stderr else "std_output"
    with about_job(options.job):
        peek = session.server.get(path, expects="std_output")
    if not options.follow:
        return CommandOutput(peek, _lines(peek[stream], session) or _nothing(peek, session))
    shown = ""
    while True:
        for line in _lines(added(shown, peek[stream]), session, is_part=True):
            session.console.write(str(line))
        shown = peek[stream] or shown
        if peek["status"] in _ENDED:
            return CommandOutput(peek, [], exit_code=Exit.DONE)
        time.sleep(_LOOK_S)
        peek = session.server.get(path, expects="std_output")


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
    arrived = "it wrote no output" if peek["status"] in _ENDED else "nothing of its output has arrived yet"
    return [f"Job {peek['id']} is {peek['status']}; {arrived}."]


COMMANDS = {
    "output": Command(_configure_output, _output),
    "logs": Command(_configure_logs, _logs),
}
