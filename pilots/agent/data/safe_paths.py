"""Safe paths: files below a directory that payloads can write to are opened without following their links.

A payload may create a symbolic link at a path that the pilot, which has more rights, reads or writes later. So each
component of the path is checked, and only links that belong to root are followed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISLNK, S_ISREG
from typing import BinaryIO

_STEP = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened(base: Path, relative: str) -> Iterator[BinaryIO]:
    """Open the file *relative* to *base* for reading.

    Raises:
        FileNotFoundError: it does not exist or is not a plain file; a pipe, for example, would block the pilot.
        OSError: it cannot be opened, or the path contains a link of another user than root.
    """
    *directories, name = relative.split("/")
    with _directory(base, directories, make=False) as parent:
        descriptor = _step(name, _READ, parent=parent)
    with os.fdopen(descriptor, "rb") as file:
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileNotFoundError(errno.ENOENT, "there is no such file")
        yield file


@contextmanager
def replaced(base: Path, relative: str) -> Iterator[BinaryIO]:
    """Open a new file that replaces the file *relative* to *base* at the end of ``with``, unless that fails.

    Missing directories are created.

    Raises:
        OSError: it cannot be written, or the path contains a link of another user than root.
    """
    *directories, name = relative.split("/")
    part = f".{name[:200]}.{os.getpid()}.part"
    with _directory(base, directories, make=True) as parent:
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=parent)
        try:
            with os.fdopen(os.open(part, _NEW, 0o666, dir_fd=parent), "wb") as file:
                yield file
            os.rename(part, name, src_dir_fd=parent, dst_dir_fd=parent)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part, dir_fd=parent)


@contextmanager
def _directory(base: Path, names: list[str], *, make: bool) -> Iterator[int]:
    """Yield a descriptor of the directory with these path components below *base*."""
    if make:
        base.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(base, _STEP)
    try:
        for name in names:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=descriptor)
            following = _step(name, _STEP, parent=descriptor)
            os.close(descriptor)
            descriptor = following
        yield descriptor
    finally:
        os.close(descriptor)


def _step(name: str, flags: int, *, parent: int) -> int:
    """Return a descriptor of *name* in the directory *parent*; a link is followed if it belongs to root."""
    try:
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=parent)
    except OSError as error:
        if error.errno not in {errno.ELOOP, errno.ENOTDIR}:
            raise
    link = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        status = os.fstat(link)
        if not S_ISLNK(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, f"{name} is not a directory")
        if status.st_uid != 0:
            raise OSError(errno.ELOOP, f"{name} is a symbolic link that does not belong to root, and is not followed")
        return os.open(os.readlink("", dir_fd=link), flags, dir_fd=parent)
    finally:
        os.close(link)
