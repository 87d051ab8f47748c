"""The output spool: archives that could not be uploaded, kept on the node for some days."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pilots.agent.base import log

#: Bytes of one spool.
MOST_BYTES = 200 * 1024 * 1024
#: Age in seconds at which an archive is removed.
_MOST_AGE_S = 7 * 24 * 3600.0
#: For the spool where it cannot be beside the work directory.
_LASTING = Path("/var/tmp")  # noqa: S108 - another user's directory there is not used
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def directory_of(work_directory: Path, *, server: str) -> Path:
    """Return the spool of this account for one server, beside the pilot's work directory, which ends with the pilot.

    Args:
        work_directory: of the pilot.
        server: its address.
    """
    digest = hashlib.sha256(server.rstrip("/").encode()).hexdigest()[:12]
    return work_directory.resolve().parent / f"kept-{os.getuid()}-{digest}"


def keep(file: Path, *, spool: Path, work_directory: Path, name: str) -> str | None:
    """Move *file* into the spool, and return ``host:path``, perhaps with how long it is there; None: that failed.

    Nothing is replaced: a number is added to a name that exists. Old archives are removed to make room.

    Args:
        file: the archive.
        spool: from directory_of().
        work_directory: of the pilot, for the spool if there is no better place; a batch system may remove it.
        name: of the archive in the spool.
    """
    for above in (spool.parent, _LASTING, work_directory.resolve()):
        try:
            with _opened(above / spool.name) as (directory, descriptor):
                if not _make_room(descriptor, file.stat().st_size):
                    return None
                place = directory / _moved(file, name, directory=descriptor)
        except OSError as error:
            log.event("output.not_kept", directory=above / spool.name, error=error)
            continue
        log.event("output.kept", file=place, bytes=place.stat().st_size)
        until = " until the slot ends" if above == work_directory.resolve() else ""
        return f"{socket.gethostname()}:{place}{until}"
    return None


@contextmanager
def _opened(spool: Path) -> Iterator[tuple[Path, int]]:
    """Open the spool, made if need be; if another user took its name first, one with a name that nobody can foresee."""
    unforeseen = spool.with_name(f"{spool.name}-{secrets.token_hex(4)}")
    for directory in (spool, *sorted(spool.parent.glob(f"{spool.name}-*")), unforeseen):
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        try:
            descriptor = os.open(directory, _DIRECTORY)
        except OSError as error:
            log.event("output_spool.not_usable", directory=directory, error=error)
            continue
        try:
            status = os.fstat(descriptor)
            if status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o077:
                yield directory, descriptor
                return
        finally:
            os.close(descriptor)
        log.event("output_spool.not_usable", directory=directory, error="it is not private to this account")
    raise PermissionError(1, f"{spool} cannot be used")


def _moved(file: Path, name: str, *, directory: int) -> str:
    """Move *file* into the open directory under *name* or, if that exists, one with a number; return the name."""
    new, number = name, 1
    while True:
        try:
            target = os.open(new, _NEW, 0o600, dir_fd=directory)
            break
        except FileExistsError:
            number += 1
            new = f"{number}-{name}"
    with os.fdopen(target, "wb") as copy:
        try:
            os.rename(file, new, dst_dir_fd=directory)  # over the empty file that was made for it
        except OSError:  # on another file system
            try:
                with file.open("rb") as source:
                    shutil.copyfileobj(source, copy)
            except OSError:
                os.unlink(new, dir_fd=directory)
                raise
            file.unlink()
    return new


def _make_room(directory: int, size_bytes: int) -> bool:
    """Remove archives that are too old, and then the oldest until there is room; return whether there is."""
    if size_bytes > MOST_BYTES:
        return False
    files = []
    with os.scandir(directory) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):  # another pilot made room at the same time
                files.append((entry.name, entry.stat(follow_symlinks=False)))
    left_bytes = sum(status.st_size for _, status in files)
    for name, status in sorted(files, key=lambda each: each[1].st_mtime):
        if left_bytes + size_bytes <= MOST_BYTES and time.time() - status.st_mtime < _MOST_AGE_S:
            break
        with suppress(OSError):  # not a file of a pilot, or removed already
            os.unlink(name, dir_fd=directory)
            left_bytes -= status.st_size
    return left_bytes + size_bytes <= MOST_BYTES
