"""Output sandboxes: download and unpacking."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path, PurePosixPath

from .connection import Connection
from .downloads import OnBytes
from .errors import ClientError, ServerRefusedError, WrongUsageError
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
    except (OSError, tarfile.TarError) as error:
        raise WrongUsageError(f"The output of job {job_id} cannot be unpacked into {directory} ({error}).") from error
    return directory


def unpack(archive: Path, directory: Path) -> None:
    """Unpack a ``.tar.gz`` of files and directories, all of it or nothing.

    Raises:
        UnsafeArchiveError: a member is something else, or leads outside.
    """
    with tarfile.open(archive) as tar:
        members = tar.getmembers()
        for member in members:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts or not (member.isfile() or member.isdir()):
                raise UnsafeArchiveError(
                    f"The output has a member that is not an ordinary file below its directory: {member.name!r}."
                )
        for member in members:
            target = directory / member.name
            _refuse_links(target, directory)
            if member.isdir():
                target.mkdir(parents=True, exist_ok=True)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            if source is not None:
                with source, target.open("wb") as file:
                    shutil.copyfileobj(source, file)
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
