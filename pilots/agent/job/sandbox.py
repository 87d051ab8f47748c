"""Archives: unpacking of input and packing of output, neither of which leaves the job's directory."""

from __future__ import annotations

import io
import lzma
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pilots.agent.server.http import GivenUpError
from wms.wire.protocol import MAX_DEPTH, MAX_MEMBERS, components, may_lead_out

CHUNK_BYTES = 64 * 1024
#: Bytes read between two checks whether the job must stop.
_STEP_BYTES = 1024 * 1024
#: Errors that the standard library raises for a damaged archive, besides OSError.
DAMAGE = (tarfile.TarError, EOFError, ValueError, zlib.error, lzma.LZMAError)


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
        OSError and those of DAMAGE: the archive cannot be read, or the disk is full.
    """
    left = max_bytes
    with tarfile.open(fileobj=archive, mode="r|*", errorlevel=2) as members:
        for number, member in enumerate(members, start=1):
            left -= member.size if member.isreg() else 0
            if left < 0 or member.size < 0:
                raise UnsafeMemberError(f"it unpacks to more than {max_bytes} bytes")
            if number > MAX_MEMBERS:
                raise UnsafeMemberError(f"it has more than {MAX_MEMBERS} members")
            _unpack_member(members, member, into)
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
    with into.open("wb") as file, tarfile.open(fileobj=file, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, name in names:
            content = open_inside(path, directory)
            if content is None:
                continue
            with content:
                info = _header(name, os.fstat(content.fileno()))
                left -= info.size
                if left < 0:
                    raise OutputTooLargeError(f"{_shown(limits.unpacked_bytes)}, unpacked")
                archive.addfile(info, stoppable(content, give_up))
                packed += 1
            if file.tell() > limits.packed_bytes:
                break
    if into.stat().st_size > limits.packed_bytes:
        raise OutputTooLargeError(f"{_shown(limits.packed_bytes)}, packed")
    return packed


def _shown(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:.4g} MB" if size_bytes >= 1024**2 else f"{size_bytes} bytes"


def pack_tails(directory: Path, names: Sequence[tuple[Path, str]], *, into: Path, tail_bytes: int) -> int:
    """Write a .tar.gz of the last *tail_bytes* of each file, for output that is too large; return their number."""
    packed = 0
    with tarfile.open(into, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path, name in names:
            content = open_inside(path, directory)
            if content is None:
                continue
            with content:
                info = _header(name, os.fstat(content.fileno()))
                content.seek(max(0, info.size - tail_bytes))
                tail = content.read(tail_bytes)
                info.size = len(tail)
                archive.addfile(info, io.BytesIO(tail))
                packed += 1
    return packed


def _unpack_member(archive: tarfile.TarFile, member: tarfile.TarInfo, into: Path) -> None:
    parts = _parts(member.name)
    if member.issparse() or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise UnsafeMemberError(f"{member.name!r} is neither a file nor a directory nor a link")
    if not parts:
        if member.isdir():
            return  # the top directory itself
        raise UnsafeMemberError("a member has no name")
    target = _make_parents(into, parts, member.name)
    if member.isdir():
        _make_directory(target, member.name)
        return
    _make_room(target, member.name)
    if member.issym():
        target.symlink_to(_link_target(member, depth=len(parts) - 1))
    elif member.islnk():
        source = into.joinpath(*_parts(member.linkname))
        _make_parents(into, _parts(member.linkname), member.name)
        if not _is_plain(source):
            raise UnsafeMemberError(f"{member.name!r} is a link, but not to a file of the archive")
        os.link(source, target, follow_symlinks=False)
    else:
        _write(archive, member, target)


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


def _link_target(member: tarfile.TarInfo, *, depth: int) -> str:
    target = member.linkname
    unusable = not target or target.startswith("/") or "\0" in target
    if unusable or may_lead_out(components(target), depth=depth):
        raise UnsafeMemberError(f"{member.name!r} is a link that leads, or may lead, out of the directory")
    return target


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    content = archive.extractfile(member)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(target, flags, 0o600), "wb") as file:
        left = member.size
        while content is not None and left > 0:
            chunk = content.read(min(CHUNK_BYTES, left))
            if not chunk:
                raise EOFError("the archive is cut off")
            file.write(chunk)
            left -= len(chunk)
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


def _header(name: str, status: os.stat_result) -> tarfile.TarInfo:
    # Without names and ids of the node's users.
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = status.st_size, int(status.st_mtime), (status.st_mode & 0o755) | 0o600
    return info
