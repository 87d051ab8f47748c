"""Output sandboxes: download and unpacking."""

from __future__ import annotations

from pathlib import Path

from .connection import Connection
from .downloads import OnBytes
from .errors import ClientError, ServerRefusedError, WrongUsageError
from .wire.archives import ArchiveError, ArchiveReader, Member, MemberKind
from .wire.protocol import API_V1


class UnsafeArchiveError(ClientError):
    """An output sandbox has a member that would leave its directory, or is not an ordinary file."""

    code = "unsafe_archive"


def fetch_output(
    connection: Connection, job_id: int, directory: Path, *, on_bytes: OnBytes | None = None
) -> Path | None:
    """Download the output sandbox of a job and unpack it into *directory*, which is made if missing.

    The archive is removed after it was unpacked; a download that broke off is continued by the next call.

    Returns:
        The directory, or None if the job has no output sandbox (yet).

    Raises:
        UnsafeArchiveError: nothing of it is unpacked.
        WrongUsageError: the directory cannot be written to.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        archive = directory / f".output-of-{job_id}.tar.gz"
        try:
            connection.download(f"{API_V1}jobs/{job_id}/output/", archive, on_bytes=on_bytes)
        except ServerRefusedError as error:
            if error.code != "no_output":
                raise
            _remove_if_empty(directory)
            return None
        unpack(archive, directory)
        archive.unlink()
    except (OSError, ArchiveError) as error:
        raise WrongUsageError(f"The output of job {job_id} cannot be unpacked into {directory} ({error}).") from error
    return directory


def unpack(archive: Path, directory: Path) -> None:
    """Unpack a ``.tar.gz`` of files and directories, all of it or nothing.

    Raises:
        UnsafeArchiveError: a member is something else, or leads outside.
    """
    with archive.open("rb") as content:
        for member in ArchiveReader(content):
            if leads_out(member.name) or member.kind not in {MemberKind.FILE, MemberKind.DIRECTORY}:
                raise UnsafeArchiveError(
                    f"The output has a member that is not an ordinary file below its directory: {member.name!r}."
                )
        reader = ArchiveReader(content)
        for member in reader:
            _refuse_links(directory / member.name, directory)
            write(reader, member, directory)


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
