"""Output sandboxes: download and unpacking."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .connection import Connection
from .downloads import OnBytes, TooLargeDownloadError
from .errors import ClientError, ServerRefusedError, WrongUsageError
from .wire.archives import MAX_MEMBERS, ArchiveError, ArchiveReader, Member, MemberKind
from .wire.protocol import API_V1

#: Largest output that is fetched unless its user names another size; servers accept 200 MB by default.
MOST_MB = 1000


class OutputTooLargeError(ClientError):
    """An output sandbox is larger, packed or unpacked, than its user wants to fetch."""

    code = "output_too_large"


class UnsafeArchiveError(ClientError):
    """An output sandbox has a member that would leave its directory, or is not an ordinary file."""

    code = "unsafe_archive"


def fetch_output(
    connection: Connection,
    job_id: int,
    directory: Path,
    *,
    on_bytes: OnBytes | None = None,
    most_mb: int = MOST_MB,
) -> Path | None:
    """Download the output sandbox of a job and unpack it into *directory*, which is made if missing.

    The archive is removed, whether it can be unpacked or not; a download that broke off is continued by the next call.

    Returns:
        The directory, or None if the job has no output sandbox (yet).

    Raises:
        UnsafeArchiveError, OutputTooLargeError: nothing of it is unpacked.
        WrongUsageError: the directory cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        archive = directory / f".output-of-{job_id}.tar.gz"
        try:
            download_output(connection, job_id, archive, on_bytes=on_bytes, most_mb=most_mb)
        except ServerRefusedError as error:
            if error.code != "no_output":
                raise
            _remove_if_empty(directory)
            return None
        try:
            unpack(archive, directory, most_mb=most_mb)
        finally:
            archive.unlink()
    except (OSError, ArchiveError) as error:
        raise WrongUsageError(f"The output of job {job_id} cannot be unpacked into {directory} ({error}).") from error
    return directory


def download_output(
    connection: Connection, job_id: int, archive: Path, *, on_bytes: OnBytes | None = None, most_mb: int = MOST_MB
) -> None:
    """Download the output sandbox of a job, without unpacking it.

    Raises:
        OutputTooLargeError: it has more than *most_mb*; what arrived of it is removed.
    """
    try:
        connection.download(
            f"{API_V1}jobs/{job_id}/output/", archive, on_bytes=on_bytes, most_bytes=most_mb * 1_000_000
        )
    except TooLargeDownloadError as error:
        raise _too_large(most_mb) from error


def unpack(archive: Path, directory: Path, *, most_mb: int = MOST_MB) -> None:
    """Unpack a ``.tar.gz`` of files and directories, all of it or nothing.

    Raises:
        UnsafeArchiveError: a member is something else, or leads outside.
        OutputTooLargeError: it unpacks to more than *most_mb*, or has too many members.
    """
    with archive.open("rb") as content:
        for member in bounded(ArchiveReader(content), most_mb=most_mb):
            if leads_out(member.name) or member.kind not in {MemberKind.FILE, MemberKind.DIRECTORY}:
                raise UnsafeArchiveError(
                    f"The output has a member that is not an ordinary file below its directory: {member.name!r}."
                )
        reader = ArchiveReader(content)
        for member in reader:
            _refuse_links(directory / member.name, directory)
            write(reader, member, directory)


def bounded(members: ArchiveReader, *, most_mb: int) -> Iterator[Member]:
    """Yield the members, whose data may be read from *members* one by one.

    Raises:
        OutputTooLargeError: they have more than *most_mb*, or are too many.
    """
    left_bytes = most_mb * 1_000_000
    for number, member in enumerate(members, start=1):
        left_bytes -= member.size_bytes
        if left_bytes < 0:
            raise _too_large(most_mb)
        if number > MAX_MEMBERS:
            raise OutputTooLargeError(f"The output has more than {MAX_MEMBERS} files and directories; not unpacked.")
        yield member


def _too_large(most_mb: int) -> OutputTooLargeError:
    return OutputTooLargeError(
        f"The output has more than {most_mb} MB; not fetched. If you expect that much, allow more with "
        "--max-size (most_mb in Python)."
    )


def leads_out(name: str) -> bool:
    """Return whether the path of a member is outside of the directory."""
    path = Path(name)
    return path.anchor != "" or ".." in path.parts


def write(reader: ArchiveReader, member: Member, directory: Path) -> None:
    """Write a file or directory, whose name does not lead out, below *directory*."""
    target = directory / member.name
    if member.kind is MemberKind.DIRECTORY:
        target.mkdir(parents=True, exist_ok=True)
    elif member.kind is MemberKind.FILE:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            file.writelines(reader.data())
        target.chmod(0o755 if member.mode & 0o100 else 0o644)


def _refuse_links(target: Path, directory: Path) -> None:
    """Refuse a path through a link that is in the directory already."""
    while target != directory:
        if target.is_symlink():
            raise UnsafeArchiveError(f"{target} is a link; remove it, and download the output again.")
        target = target.parent


def _remove_if_empty(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:  # it has files
        return
