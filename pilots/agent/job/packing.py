"""Packing of output: what fits into the limits is packed; whatever is left out is named with the reason."""

from __future__ import annotations

import os
import tarfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pilots.agent.job import output_files, sandbox
from pilots.agent.server.http import GivenUpError
from wms.wire.archives import (
    BYTES_OF_ATTRIBUTE,
    CHUNK_BYTES,
    END,
    MAX_MEMBERS,
    Member,
    MemberKind,
    blocks_of,
    most_header_bytes,
)

#: Last bytes of standard output and error each that are stored when the whole is too large.
_TAIL_BYTES = 1024 * 1024
#: Most bytes that zlib holds back before it writes them, roughly.
_PENDING_BYTES = 256 * 1024
#: Names in each list of a minor status, and characters of each name.
_MOST_NAMED, _LONG_NAME = 3, 40
_GZIP_FORMAT = 16 + zlib.MAX_WBITS
#: Attributes of a member whose name does not fit into a plain header.
_ATTRIBUTES = 4


@dataclass(frozen=True)
class ArchiveLimits:
    """Limits of one archive, in bytes; one for the server also has limits of members and headers."""

    packed_bytes: int
    unpacked_bytes: int
    for_server: bool = True

    @property
    def tail_bytes(self) -> int:
        """Return the last bytes that are packed of standard output, and of standard error, if one is too large."""
        return min(_TAIL_BYTES, self.packed_bytes // 4)


class LeftOut(NamedTuple):
    """Something that was not packed: a file that is too large, or what is not a readable file."""

    path: Path
    name: str
    reason: str
    is_too_large: bool = False


@dataclass
class Packed:
    """The result of packing: the number of members, and the files that were left out."""

    members: int = 0
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def too_large(self) -> list[tuple[Path, str]]:
        """Return (path, name) of what exceeded the limits."""
        return [(each.path, each.name) for each in self.left_out if each.is_too_large]


class _TooLargeError(Exception):
    """A member does not fit; the text says which limit it exceeds."""


class _UnreadableError(Exception):
    """A file cannot be read to its end; the text says why."""


def pack(
    directory: Path,
    files: Sequence[tuple[Path, str]],
    *,
    into: Path,
    limits: ArchiveLimits,
    streams: Collection[str] = (),
    give_up: Callable[[], bool] = lambda: False,
) -> Packed:
    """Write a .tar.gz of the *files* (path, name within the archive) that fit, the smallest first.

    Args:
        directory: of the job; nothing outside is packed.
        files: from output_files.chosen().
        into: the archive.
        limits: of the archive.
        streams: names of the files that come before all others, and of which at least the end is packed.
        give_up: asked while files are read.

    Raises:
        GivenUpError: *give_up* returned true; the archive is removed.
        OSError: the archive cannot be written.
    """
    packed = Packed()
    try:
        with into.open("wb") as file:
            archive = _Archive(file, limits)
            for path, name in sorted(files, key=lambda each: (each[1] not in streams, _size_bytes(each[0]), each[1])):
                left_out = _packed(archive, path, name, directory, has_tail=name in streams, give_up=give_up)
                packed.left_out += [] if left_out is None else [left_out]
            archive.end()
    except GivenUpError:
        into.unlink(missing_ok=True)
        raise
    packed.members = archive.members
    return packed


def pack_tails(directory: Path, streams: Sequence[tuple[Path, str]], *, into: Path, limits: ArchiveLimits) -> None:
    """Write a .tar.gz of the end of each file."""
    with into.open("wb") as file:
        archive = _Archive(file, limits)
        for path, name in streams:
            content = sandbox.open_inside(path, directory)
            if content is not None:
                with content:
                    _add_tail(archive, content, name)
        archive.end()


def shown(size_bytes: int) -> str:
    """Return a size for people."""
    if size_bytes >= 1024**2:
        return f"{size_bytes / 1024**2:.4g} MB"
    return f"{size_bytes / 1024:.4g} kB" if size_bytes >= 64 * 1024 else f"{size_bytes} bytes"


def absent(directory: Path, patterns: Sequence[str]) -> list[str]:
    """Return the patterns that match nothing, printable."""
    names = [pattern for pattern in dict.fromkeys(patterns) if not output_files.chosen(directory, [pattern])]
    # The server refuses texts with control characters, and with them the result of the job.
    return ["".join(character if character.isprintable() else "?" for character in name) for name in names]


def troubles(missing: Sequence[str], left_out: Sequence[LeftOut], where: str, *, room: int) -> str:
    """Return a sentence for the minor status that names what is not in an output sandbox; empty: nothing.

    Args:
        missing: from absent().
        left_out: from pack().
        where: end of the sentence, which says what became of files that are too large.
        room: characters; as few names are given as need be, but at least one of each list.
    """
    sentence = ""
    for most in range(_MOST_NAMED, 0, -1):
        lists = [
            _named("not found: ", [(name, "") for name in missing], most=most),
            _named("not stored: ", [(each.name, each.reason) for each in left_out if not each.is_too_large], most=most),
            _named("too large: ", [(each.name, each.reason) for each in left_out if each.is_too_large], most=most),
        ]
        sentence = f"output sandbox: {'; '.join(filter(None, lists))}{where}" if any(lists) else ""
        if len(sentence) <= room:
            break
    return sentence


class _Archive:
    """A .tar.gz that remains as it was when a member cannot be added.

    Attributes:
        members: their number.
        tail_bytes: most bytes of the end of a file.
    """

    def __init__(self, file: BinaryIO, limits: ArchiveLimits) -> None:
        self._file, self._limits = file, limits
        self._compressor = zlib.compressobj(level=9, wbits=_GZIP_FORMAT)
        self._packed_bytes = 0
        self._left_bytes = limits.unpacked_bytes
        self._header_bytes = len(END)
        self.members = 0
        self.tail_bytes = limits.tail_bytes

    def add(self, member: Member, data: Iterable[bytes] = ()) -> None:
        """Add a member.

        Raises:
            _TooLargeError: it does not fit.
        """
        if self._limits.for_server and self.members == MAX_MEMBERS:
            raise _TooLargeError(f"limit {MAX_MEMBERS} files")
        if member.size_bytes > self._left_bytes:
            raise _TooLargeError(f"{shown(member.size_bytes)}; limit {shown(self._limits.unpacked_bytes)}")
        before = self._compressor.copy(), self._packed_bytes
        blocks = blocks_of(member, data)
        try:
            header = next(blocks)
            header_bytes = self._counted(header)
            self._write([header], member.size_bytes)
            self._write(blocks, member.size_bytes)
            self._check_end(member.size_bytes)
        except Exception:
            self._compressor, self._packed_bytes = before
            self._file.seek(self._packed_bytes)
            self._file.truncate()
            raise
        self.members += 1
        self._left_bytes -= member.size_bytes
        self._header_bytes = header_bytes

    def end(self) -> None:
        """Write the end."""
        self._file.write(self._compressor.compress(END) + self._compressor.flush())

    def _counted(self, header: bytes) -> int:
        """Return the bytes of all headers with this one, as the server counts them."""
        attributes = 0 if len(header) == tarfile.BLOCKSIZE else _ATTRIBUTES * BYTES_OF_ATTRIBUTE
        header_bytes = self._header_bytes + len(header) + attributes
        if self._limits.for_server and header_bytes > most_header_bytes(self._packed_bytes):
            raise _TooLargeError("too many files with long names")
        return header_bytes

    def _write(self, blocks: Iterable[bytes], size_bytes: int) -> None:
        for block in blocks:
            self._packed_bytes += self._file.write(self._compressor.compress(block))
            if self._packed_bytes > self._limits.packed_bytes:
                raise self._over(size_bytes)

    def _check_end(self, size_bytes: int) -> None:
        if self._packed_bytes + _PENDING_BYTES > self._limits.packed_bytes:
            ending = self._compressor.copy()
            rest = ending.compress(END) + ending.flush()
            if self._packed_bytes + len(rest) > self._limits.packed_bytes:
                raise self._over(size_bytes)

    def _over(self, size_bytes: int) -> _TooLargeError:
        return _TooLargeError(f"{shown(size_bytes)}; limit {shown(self._limits.packed_bytes)} packed")


def _packed(
    archive: _Archive, path: Path, name: str, directory: Path, *, has_tail: bool, give_up: Callable[[], bool]
) -> LeftOut | None:
    """Add one file or empty directory, or the end of one that *has_tail*; return what is left out."""
    content = sandbox.open_inside(path, directory)
    try:
        if content is None:
            reason = sandbox.obstacle(path, directory)
            if reason != sandbox.EMPTY_DIRECTORY:
                too_many = reason == sandbox.DIRECTORY
                return LeftOut(path, name, f"more than {output_files.MAX_SEARCHED} files" if too_many else reason)
            archive.add(Member(name, MemberKind.DIRECTORY, mode=0o755))
            return None
        with content:
            try:
                member = _member(name, os.fstat(content.fileno()))
                archive.add(member, _data(sandbox.stoppable(content, give_up), member.size_bytes))
            except _TooLargeError:
                if has_tail:
                    _add_tail(archive, content, name)
                raise
    except _UnreadableError as error:
        return LeftOut(path, name, str(error))
    except _TooLargeError as error:
        return LeftOut(path, name, f"{error}{'; its end is stored' if has_tail else ''}", is_too_large=True)
    return None


def _add_tail(archive: _Archive, content: BinaryIO, name: str) -> None:
    status = os.fstat(content.fileno())
    content.seek(max(0, status.st_size - archive.tail_bytes))
    tail = content.read(archive.tail_bytes)
    archive.add(_member(name, status)._replace(size_bytes=len(tail)), [tail])


def _data(content: BinaryIO, size_bytes: int) -> Iterator[bytes]:
    """Yield the data of a file, which may have become longer meanwhile."""
    while size_bytes:
        try:
            chunk = content.read(min(CHUNK_BYTES, size_bytes))
        except OSError as error:
            raise _UnreadableError(f"not readable: {error.strerror}") from error
        if not chunk:
            raise _UnreadableError("it became shorter while it was packed")
        size_bytes -= len(chunk)
        yield chunk


def _member(name: str, status: os.stat_result) -> Member:
    mode = (status.st_mode & 0o755) | 0o600
    return Member(name, MemberKind.FILE, mode=mode, size_bytes=status.st_size, mtime=int(status.st_mtime))


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _named(start: str, entries: Sequence[tuple[str, str]], *, most: int) -> str:
    """Return a list of files, which are (name, reason); empty: there are none."""
    parts = []
    for number, (name, reason) in enumerate(entries[:most]):
        # Neighbours with one reason share it.
        is_last = number == most - 1 or number == len(entries) - 1 or entries[number + 1][1] != reason
        short = name if len(name) <= _LONG_NAME else f"{name[:_LONG_NAME]}…"
        parts.append(f"{short} ({reason})" if reason and is_last else short)
    more = f" and {len(entries) - most} more" if len(entries) > most else ""
    return f"{start}{', '.join(parts)}{more}" if parts else ""
