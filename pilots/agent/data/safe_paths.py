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
#: Errors of file systems that have no hard links, or none for this user or across these directories.
_NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV})
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


def size_of(base: Path, relative: str) -> int | None:
    """Return the size in bytes of a file, which need not be readable; None: there is another thing, such as a link.

    Raises:
        FileNotFoundError: there is nothing.
        OSError: as of ``opened``.
    """
    *directories, name = relative.split("/")
    with _directory(base, directories, make=False) as parent:
        status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    return status.st_size if S_ISREG(status.st_mode) else None


@contextmanager
def written(base: Path, relative: str) -> Iterator[BinaryIO]:
    """Open the file *relative* to *base* for writing, anew; it is on the disk at the end of ``with``.

    Missing directories below *base* are created. A file that was there, and one whose writing failed, is removed.

    Raises:
        OSError: it cannot be written, or the path contains a link of another user than root.
    """
    *directories, name = relative.split("/")
    with _directory(base, directories, make=True) as parent:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        try:
            with os.fdopen(os.open(name, _NEW, 0o666, dir_fd=parent), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=parent)
            raise


def moved(base: Path, source: str, target: str, *, replace: bool) -> bool:
    """Rename a file below *base*; without *replace*, return False if there is a *target*, whatever it is.

    Raises:
        FileNotFoundError: there is no *source*.
        OSError: it cannot be renamed, or a path contains a link of another user than root.
    """
    *directories, name = source.split("/")
    *new_directories, new_name = target.split("/")
    with _directory(base, directories, make=False) as old, _directory(base, new_directories, make=True) as new:
        if not replace:
            return _moved_if_new(name, new_name, old=old, new=new)
        os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
        # A rename between two links of one file does nothing.
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=old)
    return True


def _moved_if_new(name: str, new_name: str, *, old: int, new: int) -> bool:
    try:
        os.link(name, new_name, src_dir_fd=old, dst_dir_fd=new, follow_symlinks=False)
    except FileExistsError:
        # NFS answers so too if it repeats a call whose answer was lost.
        if not _is_same(name, new_name, old=old, new=new):
            return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _moved_without_links(name, new_name, old=old, new=new)
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=old)
    return True


def _is_same(name: str, new_name: str, *, old: int, new: int) -> bool:
    status = os.lstat(name, dir_fd=old)
    with suppress(FileNotFoundError):
        return os.path.samestat(status, os.lstat(new_name, dir_fd=new))
    return False


def _moved_without_links(name: str, new_name: str, *, old: int, new: int) -> bool:
    """Do the same on a file system without links: an empty file of this name, made here, is replaced."""
    try:
        descriptor = os.open(new_name, _NEW, 0o666, dir_fd=new)
    except FileExistsError:
        return False
    made = os.fstat(descriptor)
    os.close(descriptor)
    try:
        os.rename(name, new_name, src_dir_fd=old, dst_dir_fd=new)
    except OSError:
        with suppress(FileNotFoundError):
            if os.path.samestat(made, os.lstat(new_name, dir_fd=new)):
                os.unlink(new_name, dir_fd=new)
        raise
    return True


def removed(base: Path, relative: str) -> None:
    """Remove the file *relative* to *base*, if it exists.

    Raises:
        OSError: it cannot be removed, or the path contains a link of another user than root.
    """
    *directories, name = relative.split("/")
    with suppress(FileNotFoundError), _directory(base, directories, make=False) as parent:
        os.unlink(name, dir_fd=parent)


@contextmanager
def _directory(base: Path, names: list[str], *, make: bool) -> Iterator[int]:
    """Yield a descriptor of the directory with these path components below *base*."""
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
