"""Files of a job: input archives are unpacked and output files opened, always inside of the job's directory."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pilots.agent.server.http import GivenUpError
from wms.wire.archives import (
    MAX_DEPTH,
    MAX_MEMBERS,
    ArchiveReader,
    Member,
    MemberKind,
    components,
    may_lead_out,
)
from wms.wire.compressions import unpacked

#: Bytes read between two checks whether the job must stop.
_STEP_BYTES = 1024 * 1024


class UnsafeMemberError(Exception):
    """A member of the archive leads out of the directory, or the archive is too large."""


def unpack(archive: BinaryIO, *, into: Path, max_bytes: int) -> int:
    """Unpack a tar archive of any compression, and return the number of bytes written.

    Each path is checked on the disk: parents must be real directories, so that no link is followed. In the target of a
    link ".." may only come first, so that it stays inside.

    Raises:
        UnsafeMemberError: names the member; earlier members have been unpacked.
        ArchiveError: the archive cannot be read.
        OSError, ValueError: a member cannot be written, for example because the disk is full.
    """
    left = max_bytes
    reader = ArchiveReader(archive, unpacked=unpacked)
    for number, member in enumerate(reader, start=1):
        left -= member.size_bytes
        if left < 0 or member.size_bytes < 0:
            raise UnsafeMemberError(f"it unpacks to more than {max_bytes} bytes")
        if number > MAX_MEMBERS:
            raise UnsafeMemberError(f"it has more than {MAX_MEMBERS} members")
        _unpack_member(reader, member, into)
    return max_bytes - left


def place(file: Path, *, into: Path, name: str) -> Path:
    """Move a single file into the job's directory under *name*, and return its path.

    Raises:
        UnsafeMemberError: *name* is not a valid file name.
    """
    if name in {"", ".", ".."} or "/" in name or "\0" in name:
        raise UnsafeMemberError(f"{name!r} is not a valid file name")
    target = into / name
    _make_room(target, name)
    file.rename(target)
    target.chmod(0o644)
    return target


class _Stoppable(io.RawIOBase):
    def __init__(self, file: BinaryIO, give_up: Callable[[], bool]) -> None:
        self._file, self._give_up = file, give_up

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the standard library's
        if self._give_up():
            raise GivenUpError
        content = self._file.read(len(buffer))
        buffer[: len(content)] = content
        return len(content)


def stoppable(file: BinaryIO, give_up: Callable[[], bool]) -> BinaryIO:
    """Return the file, whose reading raises GivenUpError once *give_up* returns true.

    A sparse file may have terabytes.
    """
    return io.BufferedReader(_Stoppable(file, give_up), _STEP_BYTES)


def _unpack_member(reader: ArchiveReader, member: Member, into: Path) -> None:
    parts = _parts(member.name)
    if member.kind is MemberKind.SPECIAL:
        raise UnsafeMemberError(f"{member.name!r} is neither a file nor a directory nor a link")
    if not parts:
        if member.kind is MemberKind.DIRECTORY:
            return  # the top directory itself
        raise UnsafeMemberError("a member has no name")
    target = _make_parents(into, parts, member.name)
    if member.kind is MemberKind.DIRECTORY:
        _make_directory(target, member.name)
        return
    _make_room(target, member.name)
    if member.kind is MemberKind.SYMLINK:
        target.symlink_to(_link_target(member, depth=len(parts) - 1))
    elif member.kind is MemberKind.HARD_LINK:
        source = into.joinpath(*_parts(member.link_target))
        _make_parents(into, _parts(member.link_target), member.name)
        if not _is_plain(source):
            raise UnsafeMemberError(f"{member.name!r} is a link, but not to a file of the archive")
        os.link(source, target, follow_symlinks=False)
    else:
        _write(reader, member, target)


def _parts(name: str) -> tuple[str, ...]:
    parts = components(name)
    if name.startswith("/") or ".." in parts or "\0" in name:
        raise UnsafeMemberError(f"{name!r} leads out of the directory")
    if len(parts) > MAX_DEPTH:
        raise UnsafeMemberError(f"{name[:100]!r} lies deeper than {MAX_DEPTH} levels")
    return parts


def _make_parents(into: Path, parts: Sequence[str], name: str) -> Path:
    path = into
    for part in parts[:-1]:
        path /= part
        _make_directory(path, name)
    return path / parts[-1] if parts else path


def _make_directory(path: Path, name: str) -> None:
    try:
        path.mkdir(mode=0o755)
    except FileExistsError:
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise UnsafeMemberError(f"{name!r} is below something that is not a directory") from None


def _make_room(target: Path, name: str) -> None:
    """Remove a plain file of that name, as tar does; anything else of that name is an error."""
    try:
        kind = target.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(kind):
        raise UnsafeMemberError(f"{name!r} already exists and is not a plain file")
    target.unlink()


def _link_target(member: Member, *, depth: int) -> str:
    target = member.link_target
    unusable = not target or target.startswith("/") or "\0" in target
    if unusable or may_lead_out(components(target), depth=depth):
        raise UnsafeMemberError(f"{member.name!r} is a link that leads, or may lead, out of the directory")
    return target


def _write(reader: ArchiveReader, member: Member, target: Path) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
        file.writelines(reader.data())
        # Never setuid, setgid or sticky; always readable and writable for the owner.
        os.fchmod(file.fileno(), (member.mode & 0o755) | 0o600)


def _is_plain(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def open_inside(path: Path, directory: Path) -> BinaryIO | None:
    """Open a plain file whose real path is inside *directory*; None for anything else.

    No link is followed, even if a process of the payload's account replaces a part of the path meanwhile.
    """
    try:
        parts = path.resolve(strict=True).relative_to(directory.resolve()).parts
        above = os.open(directory, os.O_PATH | os.O_DIRECTORY)
        for part in parts[:-1]:
            above = _next_below(above, part)
        try:
            descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=above)
        finally:
            os.close(above)
    except (OSError, ValueError, RuntimeError, IndexError):
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    return None


#: Words of obstacle() for directories that are no links.
EMPTY_DIRECTORY, DIRECTORY = "an empty directory", "a directory"
_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def obstacle(path: Path, directory: Path) -> str:
    """Return a few words that say as what open_inside() does not open a path, such as "a pipe"."""
    is_link = False
    try:
        is_link = path.is_symlink()
        real = path.resolve(strict=True)
        if directory.resolve() not in (real, *real.parents):
            return f"{'' if is_link else 'behind '}a link out of the job's directory"
        return _kind_of(real, is_link=is_link)
    except (OSError, RuntimeError) as error:
        if isinstance(error, RuntimeError) or error.errno == errno.ELOOP:  # before and since Python 3.13
            return "a link to itself"
        is_missing = error.errno in {errno.ENOENT, errno.ENOTDIR}
        return "a link to nothing" if is_link and is_missing else f"not readable: {error.strerror}"


def _kind_of(real: Path, *, is_link: bool) -> str:
    kind = stat.S_IFMT(real.stat().st_mode)
    if kind == stat.S_IFDIR:
        if not os.listdir(real):
            return EMPTY_DIRECTORY
        return "a link to a directory that it is in" if is_link else DIRECTORY
    if kind in _KINDS:
        return f"a link to {_KINDS[kind]}" if is_link else _KINDS[kind]
    os.close(os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK))
    return "not readable"


def _next_below(above: int, name: str) -> int:
    """Open a directory within the open directory *above*, and close *above*."""
    try:
        return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)
