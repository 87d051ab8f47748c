"""The output spool: archives that could not be uploaded, kept on the node for some days."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import time
from contextlib import suppress
from pathlib import Path

from pilots.agent.base import log

#: Bytes of one spool.
MOST_BYTES = 200 * 1024 * 1024
#: Age in seconds at which an archive is removed.
_MOST_AGE_S = 7 * 24 * 3600.0
DIRECTORY_NAME = "kept"


def keep(file: Path, *, work_directory: Path, name: str) -> str | None:
    """Move *file* into the spool, and return ``host:path``; None: that failed.

    The spool is beside the pilot's work directory, which is removed with the pilot; if that is impossible, in it. Old
    archives are removed to make room.
    """
    try:
        size_bytes = file.stat().st_size
    except OSError:
        return None
    for above in (work_directory.resolve().parent, work_directory.resolve()):
        directory = above / DIRECTORY_NAME
        try:
            _make_private(directory)
            if not _make_room(directory, size_bytes):
                return None
            shutil.move(str(file), str(directory / name))
        except (OSError, shutil.Error) as error:
            log.event("output.not_kept", directory=directory, error=error)
            continue
        log.event("output.kept", file=directory / name, bytes=size_bytes)
        return f"{socket.gethostname()}:{directory / name}"
    return None


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(1, f"{directory} belongs to somebody else")


def _make_room(directory: Path, size_bytes: int) -> bool:
    """Remove archives that are too old, and then the oldest until there is room; return whether there is."""
    if size_bytes > MOST_BYTES:
        return False
    files = []
    for path in directory.iterdir():
        with suppress(FileNotFoundError):  # another pilot made room at the same time
            files.append((path, path.lstat()))
    left_bytes = sum(status.st_size for _, status in files)
    for path, status in sorted(files, key=lambda each: each[1].st_mtime):
        if left_bytes + size_bytes <= MOST_BYTES and time.time() - status.st_mtime < _MOST_AGE_S:
            break
        with suppress(OSError):  # not a file of a pilot
            path.unlink(missing_ok=True)
            left_bytes -= status.st_size
    return left_bytes + size_bytes <= MOST_BYTES
