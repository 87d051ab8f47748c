"""Directories of jobs whose pilot was killed with all that it had started: a later pilot on the node removes them.

Beside the directory of each job is a file that the process of the job keeps locked, and in it how the node is called.
Where nobody has the lock any more, nobody is left who would remove the directory. On file systems that know no locks
there is no such file, and nothing is ever removed for somebody else.
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
_MOST_BYTES = 1024


class WorkspaceLock:
    """Tells other pilots that the directory of a job is in use, as long as this process lives.

    ``with`` holds it; at its end the file goes with the directory, or stays for a later pilot to try.
    """

    def __init__(self, directory: Path) -> None:
        """Hold nothing yet; *directory* is still to be made."""
        self._directory = directory
        self._file = file_of(directory)
        self._descriptor: int | None = None

    def __enter__(self) -> WorkspaceLock:  # noqa: PYI034 - Self is of Python 3.11
        try:
            self._descriptor = _locked_new(self._file)
        except OSError as error:
            # The disk is full, which the job will meet next, or the file system knows no locks.
            log.event("workspace.not_guarded", directory=self._directory, error=error)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        if self._descriptor is None:
            return
        with suppress(OSError):
            _remove_file(self._directory)
        os.close(self._descriptor)


def file_of(directory: Path) -> Path:
    """Return the file whose lock says that the directory of a job is in use."""
    return directory.with_name(f"{_PREFIX}{directory.name}{_SUFFIX}")


def remove_all(work_directory: Path, *, accounts: Sequence[str], stopped: Callable[[], object]) -> None:
    """Remove what pilots of this user left on this node, as far as that can be done.

    Args:
        work_directory: where their jobs ran, and those of this pilot do.
        accounts: under which payloads of theirs may have run.
        stopped: true when there is something better to do; looked at between two directories.
    """
    for file in _files_in(work_directory):
        if stopped():
            return
        with suppress(OSError, UnicodeDecodeError):  # it is in use, or not this user's, or none of ours
            _remove_if_left(file, accounts=accounts)


def remove(directory: Path, *, accounts: Sequence[str]) -> None:
    """Remove the directory of a job of which nothing runs any more; what cannot be removed is tried by later pilots."""
    identity.remove_left(directory, names=accounts)
    remove_tree(str(directory))
    log.event("workspace.left", directory=directory, removed=not directory.exists())
    _remove_file(directory)


def _remove_file(directory: Path) -> None:
    if not os.path.lexists(directory):
        file_of(directory).unlink(missing_ok=True)


def _files_in(work_directory: Path) -> Iterator[Path]:
    try:
        names = sorted(os.listdir(work_directory))  # noqa: PTH208 - names are all that is wanted
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
    """Make the file, locked; in a directory that is everybody's its name may be taken, which is an error too."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        # Another pilot may look at it this moment; without a name of a node in it, it is not that one's to remove.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, "\n".join(_names_of_node()).encode("ascii"))
    except OSError:
        file.unlink(missing_ok=True)
        os.close(descriptor)
        raise
    return descriptor


def _is(descriptor: int, file: Path) -> bool:
    """Return whether the open file is this user's, and still the one of that name."""
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
    # A work directory may be shared by nodes, and its locks may be those of one node only.
    return not {*content.split()}.isdisjoint(_names_of_node())


def _names_of_node() -> list[str]:
    """Return what no other node is called: one name outlasts a restart, the other is the same in all containers."""
    host = ascii(socket.gethostname()).strip("'")
    names = [] if not host or host.startswith("localhost") else [f"host:{host}"]
    return [*names, *(f"boot:{word}" for word in read(_BOOT).split()[:1])]
