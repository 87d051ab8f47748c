"""Archives: unpacking of input and packing of output, neither of which leaves the job's directory."""

from __future__ import annotations

import gzip
import io
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pilots.agent.server.http import GivenUpError
from wms.wire.archives import (
    CHUNK_BYTES,
    END,
    MAX_DEPTH,
    MAX_MEMBERS,
    ArchiveReader,
    Member,
    MemberKind,
    blocks_of,
    components,
    may_lead_out,
)
from wms.wire.compressions import unpacked

#: Bytes read between two checks whether the job must stop.
_STEP_BYTES = 1024 * 1024


class UnsafeMemberError(Exception):
    """A member of the archive leads out of the directory, or the archive is too large."""


class OutputTooLargeError(Exception):
    """The output exceeds a limit of the server; the text of the error is the limit."""


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits of one sandbox, in bytes."""

    packed_bytes: int
    unpacked_bytes: int


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


def pack(
    directory: Path,
    names: Sequence[tuple[Path, str]],
    *,
    into: Path,
    limits: ArchiveLimits,
    give_up: Callable[[], bool] = lambda: False,
) -> int:
    """Write a .tar.gz of the files *names* (path, name within the archive); return their number.

    Raises:
        OutputTooLargeError: they exceed a limit of the server.
        GivenUpError: *give_up* returned true; the archive is removed.
    """
    try:
        return _pack(directory, names, into=into, limits=limits, give_up=give_up)
    except GivenUpError:
        into.unlink(missing_ok=True)
        raise


def _pack(
    directory: Path,
    names: Sequence[tuple[Path, str]],
    *,
    into: Path,
    limits: ArchiveLimits,
    give_up: Callable[[], bool],
) -> int:
    left = limits.unpacked_bytes
    if len(names) > MAX_MEMBERS:
        raise OutputTooLargeError(f"{MAX_MEMBERS} files")
    packed = 0
    with into.open("wb") as file, gzip.GzipFile(fileobj=file, mode="wb") as archive:
        for path, name in names:
            content = open_inside(path, directory)
            if content is None:
                continue
            with content:
                member = _member(name, os.fstat(content.fileno()))
                left -= member.size_bytes
                if left < 0:
                    raise OutputTooLargeError(f"{_shown(limits.unpacked_bytes)}, unpacked")
                archive.writelines(blocks_of(member, _data(stoppable(content, give_up), member.size_bytes)))
                packed += 1
            if file.tell() > limits.packed_bytes:
                break
        archive.write(END)
    if into.stat().st_size > limits.packed_bytes:
        raise OutputTooLargeError(f"{_shown(limits.packed_bytes)}, packed")
    return packed


def _data(content: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield the data of a file, which may have become longer meanwhile."""
    while size_bytes:
        chunk = content.read(min(CHUNK_BYTES, size_bytes))
        if not chunk:
            raise OSError("unexpected end of data")
        size_bytes -= len(chunk)
        yield chunk


def _shown(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:.4g} MB" if size_bytes >= 1024**2 else f"{size_bytes} bytes"


def pack_tails(directory: Path, names: Sequence[tuple[Path, str]], *, into: Path, tail_bytes: int) -> int:
    """Write a .tar.gz of the last *tail_bytes* of each file, for output that is too large; return their number."""
    packed = 0
    with gzip.open(into, "wb") as archive:
        for path, name in names:
            content = open_inside(path, directory)
            if content is None:
                continue
            with content:
                status = os.fstat(content.fileno())
                content.seek(max(0, status.st_size - tail_bytes))
                tail = content.read(tail_bytes)
                archive.writelines(blocks_of(_member(name, status)._replace(size_bytes=len(tail)), [tail]))
                packed += 1
        archive.write(END)
    return packed


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


def _next_below(above: int, name: str) -> int:
    """Open a directory within the open directory *above*, and close *above*."""
    try:
        return os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)


def _member(name: str, status: os.stat_result) -> Member:
    mode = (status.st_mode & 0o755) | 0o600
    return Member(name, MemberKind.FILE, mode=mode, size_bytes=status.st_size, mtime=int(status.st_mtime))
