"""Inspection of uploaded archives, member by member, without unpacking; the rules are in wms.jobs.domain.archives."""

import bz2
import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable, Generator, Iterator, Mapping
from types import MappingProxyType
from typing import IO, Protocol

from wms.jobs.domain.archives import (
    Member,
    MemberKind,
    SandboxTooLargeError,
    UnsafeArchiveError,
    check_members,
)
from wms.kernel.errors import RejectedError
from wms.wire.protocol import MAX_MEMBERS

#: Header of one member with its extensions (long names, attributes), which tarfile holds in memory.
MAX_HEADER_BYTES = 32 * 1024
#: Mean header of all members: longer attributes take seconds of parsing.
MEAN_HEADER_BYTES = 2560
#: All headers of an archive of 64 kB or less: at most 100 ms of parsing. Equal headers pack to a hundredth.
SMALL_ARCHIVE_BYTES = 64 * 1024
SMALL_ARCHIVE_HEADER_BYTES = 2400 * 1024
#: Header bytes per further packed byte: ten thousand small files with different headers pack to an eightieth.
HEADER_BYTES_OF_PACKED_BYTE = 96
#: Header bytes that take as long to parse as one attribute.
BYTES_OF_ATTRIBUTE = 26
#: Global attributes, which are copied to each following member.
MAX_GLOBAL_ATTRIBUTES = 64
#: Attributes of one member with the global ones; tar writes about ten. tarfile searches and compares each of them.
MAX_ATTRIBUTES = 128
#: `xz -9` needs 65 MiB to unpack; a header may name 4 GiB.
MAX_XZ_MEMORY_BYTES = 128 * 1024 * 1024
CHUNK_BYTES = 64 * 1024
_TOO_LARGE_HEADERS = (
    "The archive has headers of unreasonable size: too many members for its size, long names or attributes. "
    "Pack small files into fewer."
)
#: Exceptions of the standard library for a damaged archive.
DAMAGE = (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError)


class DamagedArchiveError(RejectedError):
    """The content begins as an archive but cannot be read to its end."""

    code = "damaged_archive"


class NoOutputArchiveError(RejectedError):
    """The output of a job is not a .tar.gz archive."""

    code = "no_archive"


class Readable(Protocol):
    """A source of bytes that is read from start to end."""

    def read(self, size: int, /) -> bytes:
        """Return at most *size* bytes; none at the end."""


def is_safe_archive(content: IO[bytes], *, max_unpacked_bytes: int) -> bool:
    """Return whether *content* is an archive (tar, tar.gz, tar.bz2 or tar.xz), whatever its name is.

    Any other content is a single file, which goes into the job's directory unchanged.

    Raises:
        UnsafeArchiveError: an archive with a member that must not be unpacked.
        SandboxTooLargeError: an archive that unpacks to too much.
        DamagedArchiveError: an archive that cannot be read to its end.
    """
    if not _begins_as_archive(content):
        return False
    _check(content, max_unpacked_bytes=max_unpacked_bytes)
    return True


def check_output_archive(content: IO[bytes], *, max_unpacked_bytes: int) -> None:
    """Accept a safe .tar.gz; one without members is the output of a job that wrote nothing.

    Raises:
        NoOutputArchiveError: another kind of content; otherwise as ``is_safe_archive``.
    """
    content.seek(0)
    if not content.read(2).startswith(_GZIP):
        raise NoOutputArchiveError("The output sandbox must be an archive in the form .tar.gz.")
    if not _begins_as_archive(content) and not _begins_with_the_end(content):
        raise NoOutputArchiveError("The output sandbox must be a gzipped tar archive; this one holds something else.")
    _check(content, max_unpacked_bytes=max_unpacked_bytes)


class _Xz:
    """Unpacks xz within bounded memory, which LZMAFile of the standard library does not."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._decoder = self._new_decoder()

    @staticmethod
    def _new_decoder() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=MAX_XZ_MEMORY_BYTES)

    def read(self, size: int, /) -> bytes:
        """Return at most *size* unpacked bytes; none at the end."""
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._decoder.unused_data or self._packed.read(CHUNK_BYTES)
                if not packed.strip(b"\0"):
                    return b""
                self._decoder = self._new_decoder()
            elif self._decoder.needs_input:
                packed = self._packed.read(CHUNK_BYTES)
                if not packed:
                    raise EOFError("the compressed data end too early")
            unpacked = self._decoder.decompress(packed, max_length=size)
            if unpacked:
                return unpacked


_GZIP = b"\x1f\x8b"
_UNPACKERS: Mapping[bytes, Callable[[IO[bytes]], Readable]] = MappingProxyType(
    {
        _GZIP: lambda packed: gzip.GzipFile(fileobj=packed),
        b"BZh": bz2.BZ2File,
        b"\xfd7zXZ\x00": _Xz,
    }
)


def _unpacked(content: IO[bytes]) -> Readable:
    content.seek(0)
    start = content.read(8)
    content.seek(0)
    for magic, unpacker in _UNPACKERS.items():
        if start.startswith(magic):
            return unpacker(content)
    return content


def _first_block(content: IO[bytes]) -> bytes:
    try:
        return _Forward(_unpacked(content), max_bytes=tarfile.BLOCKSIZE).read(tarfile.BLOCKSIZE)
    except DAMAGE:
        return b""


def _begins_as_archive(content: IO[bytes]) -> bool:
    try:
        tarfile.TarInfo.frombuf(_first_block(content), "utf-8", "surrogateescape")
    except tarfile.HeaderError:  # wrong checksum
        return False
    return True


def _begins_with_the_end(content: IO[bytes]) -> bool:
    return _first_block(content) == bytes(tarfile.BLOCKSIZE)


def _check(content: IO[bytes], *, max_unpacked_bytes: int) -> None:
    try:
        check_members(_members(content), max_members=MAX_MEMBERS, max_unpacked_bytes=max_unpacked_bytes)
    except DAMAGE as error:
        raise DamagedArchiveError("The archive is damaged or incomplete. Pack and send it again.") from error


def members_of(content: IO[bytes], *, max_unpacked_bytes: int) -> list[Member]:
    """Return the members of an archive, in their order, which can all be unpacked safely.

    Raises:
        UnsafeArchiveError, SandboxTooLargeError, DamagedArchiveError: as ``is_safe_archive``.
    """
    accepted: list[Member] = []

    def noted() -> Iterator[Member]:
        for member in _members(content):
            yield member
            accepted.append(member)

    try:
        check_members(noted(), max_members=MAX_MEMBERS, max_unpacked_bytes=max_unpacked_bytes)
    except DAMAGE as error:
        raise DamagedArchiveError("The archive is damaged or incomplete.") from error
    return accepted


def data_of_member(content: IO[bytes], *, position: int) -> Generator[bytes]:
    """Yield the data of the member at *position*, from 0, of an archive that ``members_of`` has accepted."""
    for number, (info, forward) in enumerate(_headers(content)):
        if number == position:
            yield from forward.data(info.size)
            return


def _members(content: IO[bytes]) -> Iterator[Member]:
    """Yield the members; the next header is read only after the previous member was accepted."""
    for info, _ in _headers(content):
        yield Member(
            name=info.name,
            kind=_kind_of(info),
            link_target=info.linkname if info.issym() or info.islnk() else "",
            mode=info.mode,
            # For directories and links only a negative size counts: no pilot can unpack such a member.
            size_bytes=info.size if info.isreg() or info.size < 0 else 0,
        )


def _headers(content: IO[bytes]) -> "Iterator[tuple[tarfile.TarInfo, _Forward]]":
    """Yield the header of each member, and the file at the beginning of its data."""
    packed_bytes = content.seek(0, io.SEEK_END)
    forward = _Forward(_unpacked(content), max_bytes=_most_header_bytes(packed_bytes))
    archive = tarfile.TarFile(fileobj=forward, mode="r", encoding="utf-8", errors="surrogateescape")
    while (info := archive.next()) is not None:
        if len(archive.pax_headers) > MAX_GLOBAL_ATTRIBUTES:
            raise UnsafeArchiveError(f"The archive has more than {MAX_GLOBAL_ATTRIBUTES} global attributes.")
        if len(info.pax_headers) > MAX_ATTRIBUTES:
            raise UnsafeArchiveError(f"A member has more than {MAX_ATTRIBUTES} attributes.")
        forward.count(len(info.pax_headers) * BYTES_OF_ATTRIBUTE)
        yield info, forward
        archive.members.clear()  # type: ignore[attr-defined]  # undocumented; tarfile would keep all members
        forward.begin_member()
    # NB: tarfile takes a broken header as the end. A valid end is a block of zeros, or the end of the file.
    if forward.last_read.strip(b"\0"):
        raise tarfile.ReadError("the archive is broken behind its last readable member")


def _most_header_bytes(packed_bytes: int) -> int:
    """Return the most header bytes for an archive of this size."""
    beyond = max(0, packed_bytes - SMALL_ARCHIVE_BYTES)
    most = SMALL_ARCHIVE_HEADER_BYTES + HEADER_BYTES_OF_PACKED_BYTE * beyond
    return min(most, MEAN_HEADER_BYTES * (MAX_MEMBERS + 1))


def _kind_of(info: tarfile.TarInfo) -> MemberKind:
    if info.issparse() or info.type not in tarfile.SUPPORTED_TYPES:
        return MemberKind.SPECIAL
    if info.isreg():
        return MemberKind.FILE
    if info.isdir():
        return MemberKind.DIRECTORY
    if info.issym():
        return MemberKind.SYMLINK
    return MemberKind.HARD_LINK if info.islnk() else MemberKind.SPECIAL


class _Forward:
    """The file that tarfile reads: forward only, so that no crafted offset makes a loop, with bounded headers.

    seek() skips the data of members, which do not count; all that is read is header.
    """

    def __init__(self, source: Readable, *, max_bytes: int) -> None:
        self._source = source
        self._position = 0
        self._left_bytes = max_bytes
        self._left_of_member_bytes = MAX_HEADER_BYTES
        self.last_read = b""

    def begin_member(self) -> None:
        """Reset the header count for the next member."""
        self._left_of_member_bytes = MAX_HEADER_BYTES

    def count(self, header_bytes: int) -> None:
        """Count further header bytes of the whole archive.

        Raises:
            SandboxTooLargeError: too many.
        """
        self._left_bytes -= header_bytes
        if self._left_bytes < 0:
            raise SandboxTooLargeError(_TOO_LARGE_HEADERS)

    def tell(self) -> int:
        """Return the position in the unpacked archive, in bytes."""
        return self._position

    def seek(self, position: int) -> None:
        """Skip to *position*, or to the end if that comes first."""
        if position < self._position:
            raise tarfile.ReadError("the archive leads backwards")
        while self._position < position:
            skipped = self._source.read(min(CHUNK_BYTES, position - self._position))
            if not skipped:
                return
            self._position += len(skipped)

    def read(self, size: int) -> bytes:
        """Return *size* bytes, fewer only at the end."""
        if not 0 <= size <= self._left_of_member_bytes:
            raise SandboxTooLargeError(_TOO_LARGE_HEADERS)
        self.count(size)
        self._left_of_member_bytes -= size
        parts = []
        while size and (part := self._source.read(size)):
            parts.append(part)
            size -= len(part)
            self._position += len(part)
        self.last_read = b"".join(parts)
        return self.last_read

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next *size* bytes, which are not counted as header, in chunks; fewer only at the end."""
        while size and (chunk := self._source.read(min(CHUNK_BYTES, size))):
            self._position += len(chunk)
            size -= len(chunk)
            yield chunk

    def write(self, _data: bytes) -> None:
        """Refuse: the archive is read-only; the type of tarfile requires the method."""
        raise io.UnsupportedOperation("write")

    def close(self) -> None:
        """Leave the source open, which belongs to the caller."""
