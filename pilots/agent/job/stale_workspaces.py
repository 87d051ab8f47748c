"""Stale workspaces: directories of jobs whose pilot was killed; a later pilot on the node removes them.

Beside the directory of each job is a lock file that contains names of the node; the process of the job holds the lock.
If nobody holds it, the directory is stale. On file systems without locks there is no such file, and nothing of other
pilots is removed.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pilots.agent.base import log
from pilots.agent.job import identity
from pilots.agent.job.user_helper import remove_tree
from pilots.agent.job.workspace import NAME
from pilots.agent.node.cgroups import read

_PREFIX, _SUFFIX = ".", ".lock"
_BOOT = Path("/proc/sys/kernel/random/boot_id")
#: Bytes of a lock file.
_MOST_BYTES = 1024


class WorkspaceLock:
    """A lock that marks the directory of a job as in use while this process lives.

    At the end of ``with`` its file is removed if the directory is gone, else it stays for a later pilot.
    """

    def __init__(self, directory: Path) -> None:
        """Prepare the lock of *directory*, which does not exist yet."""
        self._directory = directory
        self._file = file_of(directory)
        self._descriptor: int | None = None

    def __enter__(self) -> WorkspaceLock:
        try:
            self._descriptor = _locked_new(self._file)
        except OSError as error:
            # The disk is full, or the file system has no locks; the job runs without a lock.
            log.event("workspace.not_guarded", directory=self._directory, error=error)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._descriptor is None:
            return
        with suppress(OSError):
            _remove_file(self._directory)
        os.close(self._descriptor)


def file_of(directory: Path) -> Path:
    """Return the lock file of the directory of a job."""
    return directory.with_name(f"{_PREFIX}{directory.name}{_SUFFIX}")


def remove_all(work_directory: Path, *, accounts: Sequence[str], stopped: Callable[[], object]) -> None:
    """Remove stale workspaces of this user's pilots on this node, as far as possible.

    Args:
        work_directory: of this pilot.
        accounts: that the payloads may have had.
        stopped: returns true when the pilot is to stop; called before each directory.
    """
    for file in _files_in(work_directory):
        if stopped():
            return
        with suppress(OSError, UnicodeDecodeError):  # in use, of another user, or not a lock file
            _remove_if_left(file, accounts=accounts)


def remove(directory: Path, *, accounts: Sequence[str]) -> None:
    """Remove the directory of a job without processes; later pilots try again what cannot be removed."""
    identity.remove_left(directory, names=accounts)
    remove_tree(str(directory))
    log.event("workspace.left", directory=directory, removed=not directory.exists())
    _remove_file(directory)


def _remove_file(directory: Path) -> None:
    if not os.path.lexists(directory):
        file_of(directory).unlink(missing_ok=True)


def _files_in(work_directory: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(work_directory))
    except OSError:
        return
    for name in names:
        if name.startswith(_PREFIX + NAME) and name.endswith(_SUFFIX):
            yield work_directory / name


def _remove_if_left(file: Path, *, accounts: Sequence[str]) -> None:
    descriptor = os.open(file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not _is(descriptor, file) or not _is_of_this_node(os.pread(descriptor, _MOST_BYTES, 0).decode("ascii")):
            return
        directory = file.with_name(file.name[len(_PREFIX) : -len(_SUFFIX)])
        if _is_own_directory(directory):
            remove(directory, accounts=accounts)
        else:
            _remove_file(directory)
    finally:
        os.close(descriptor)


def _locked_new(file: Path) -> int:
    """Create the file, locked; a name that is taken, as is possible in a shared directory, is an error."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        # Another pilot may open it before it is locked, but removes nothing while it contains no name of a node.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, "\n".join(_names_of_node()).encode("ascii"))
    except OSError:
        file.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _is(descriptor: int, file: Path) -> bool:
    """Return whether the open file belongs to this user and still has that name."""
    opened, named = os.fstat(descriptor), file.lstat()
    same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    return same and stat.S_ISREG(opened.st_mode) and opened.st_uid == os.geteuid()


def _is_own_directory(directory: Path) -> bool:
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _is_of_this_node(content: str) -> bool:
    # Nodes may share a work directory on a file system whose locks are local to each node.
    return not {*content.split()}.isdisjoint(_names_of_node())


def _names_of_node() -> list[str]:
    """Return unique names of the node: its host name, which survives a restart, and its boot id, also in containers."""
    host = ascii(socket.gethostname()).strip("'")
    names = [] if not host or host.startswith("localhost") else [f"host:{host}"]
    return [*names, *(f"boot:{word}" for word in read(_BOOT).split()[:1])]
