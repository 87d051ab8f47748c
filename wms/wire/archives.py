"""Archives: the reader and the writer of sandboxes, and the rules that server and pilots share.

The reader goes forward only, in bounded memory and time. Whether a member is accepted is decided by who reads.
"""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from typing import IO, Any, NamedTuple, Protocol

#: Members of one archive.
MAX_MEMBERS = 10_000
#: Nested directories in an archive; the memory of the server's check grows with this depth.
MAX_DEPTH = 32
#: Bytes of a path in an archive, and of one part of it: limits of common file systems.
MAX_PATH_BYTES, MAX_PART_BYTES = 4096, 255
#: Header of one member with its extensions (long names, attributes), which tarfile holds in memory.
MAX_HEADER_BYTES = 32 * 1024
#: Mean header of all members: longer attributes take seconds of parsing.
MEAN_HEADER_BYTES = 2560
#: All headers of an archive of 64 kB or less: plain ones of as many members as it may have, and its end.
SMALL_ARCHIVE_BYTES = 64 * 1024
SMALL_ARCHIVE_HEADER_BYTES = (MAX_MEMBERS + 2) * tarfile.BLOCKSIZE
#: Header bytes per further packed byte: ten thousand small files with different headers pack to an eightieth.
HEADER_BYTES_OF_PACKED_BYTE = 96
#: Header bytes that take as long to parse as one attribute.
BYTES_OF_ATTRIBUTE = 34
#: Global attributes, which are copied to each following member.
MAX_GLOBAL_ATTRIBUTES = 64
#: Attributes of one member with the global ones; tar writes about ten. tarfile searches and compares each of them.
MAX_ATTRIBUTES = 128
CHUNK_BYTES = 64 * 1024
#: Endings of archives that are unpacked if they come from the catalogue by the input sandbox, as in DIRAC.
ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2")
#: Beginning of content that is compressed by gzip.
GZIP = b"\x1f\x8b"
#: Streams in one compressed archive, which parallel compressors write; each costs as much as a member.
MAX_STREAMS = 10_000
#: Unpacked bytes per packed byte, which gzip never exceeds; bzip2 packs 200 MB of zeros into 200 bytes.
UNPACKED_BYTES_OF_PACKED_BYTE = 1100
#: Unpacked bytes of any archive, however small: xz and bzip2 pack empty files well, too.
SMALL_ARCHIVE_UNPACKED_BYTES = 16 * 1024 * 1024
#: End of an archive, after its last member.
END = bytes(2 * tarfile.BLOCKSIZE)
_TOO_LARGE_HEADERS = (
    "The archive has headers of unreasonable size: too many members for its size, long names or attributes. "
    "Pack small files into fewer."
)


class ArchiveError(Exception):
    """An archive that cannot be read to its end."""


class DamagedError(ArchiveError):
    """Its content is damaged or incomplete."""


class TooManyAttributesError(ArchiveError):
    """Its members have too many attributes."""


class TooLargeHeadersError(ArchiveError):
    """Reading its headers would take too much time or memory."""


class TooCompressedError(ArchiveError):
    """It unpacks to more than an archive of its size may, or has too many streams: reading it would take too long."""


class MemberKind(Enum):
    """Kind of a member of an archive."""

    FILE = auto()
    DIRECTORY = auto()
    SYMLINK = auto()
    HARD_LINK = auto()
    #: Devices, pipes, sparse files and whatever else a tar header can announce.
    SPECIAL = auto()


class Member(NamedTuple):
    """One member, as its header describes it."""

    name: str
    kind: MemberKind
    link_target: str = ""
    mode: int = 0o644
    #: Of a file; of anything else 0, or negative: nobody can unpack such a member.
    size_bytes: int = 0
    #: Of its last change; Unix time.
    mtime: float = 0


class Readable(Protocol):
    """A source of bytes that is read from start to end."""

    def read(self, size: int, /) -> bytes:
        """Return at most *size* bytes; none at the end."""


class Decoder(Protocol):
    """Unpacks one stream; the decompressors of bz2 and lzma have the same methods."""

    @property
    def eof(self) -> bool:
        """Return whether the stream has ended."""

    @property
    def needs_input(self) -> bool:
        """Return whether nothing more can be unpacked without more input."""

    @property
    def unused_data(self) -> bytes:
        """Return what was found behind the end of the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Return at most *max_length* unpacked bytes, perhaps none."""


# ---- Paths -----------------------------------------------------------------------------------------------------------


def components(path: str) -> tuple[str, ...]:
    """Return the parts of a path in an archive, from the top downwards; none: the top itself."""
    return tuple(part for part in path.split("/") if part not in {"", "."})


def may_lead_out(target: Sequence[str], *, depth: int) -> bool:
    """Return whether a symbolic link in an archive leads, or may lead, out of it.

    It stays inside if it first climbs, never above the top, and then only descends.

    Args:
        target: components of its target, which is not absolute.
        depth: number of directories that the link is in.
    """
    climbs = next((number for number, part in enumerate(target) if part != ".."), len(target))
    # NB: ".." after a descent counts even where it looks harmless: the descent may follow another link.
    return climbs > depth or ".." in target[climbs:]


# ---- Reader ----------------------------------------------------------------------------------------------------------


class _Streams(io.RawIOBase):
    """The unpacked content of a compressed file, for ``streams``."""

    def __init__(self, packed: IO[bytes], new_decoder: Callable[[], Decoder], damage: type[Exception]) -> None:
        packed.seek(0)
        self._packed = packed
        self._new_decoder = new_decoder
        self._damage = damage
        self._decoder = new_decoder()
        self._streams_left = MAX_STREAMS - 1

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 - the standard library's
        unpacked = self._next(len(buffer))
        buffer[: len(unpacked)] = unpacked
        return len(unpacked)

    def _next(self, size: int) -> bytes:
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._begin_stream()
                if not packed:
                    return b""
            elif self._decoder.needs_input:
                packed = self._packed.read(CHUNK_BYTES)
                if not packed:
                    raise EOFError("the compressed data end too early")
            try:
                unpacked = self._decoder.decompress(packed, size)
            except self._damage as error:
                raise ValueError(str(error)) from error
            if unpacked:
                return unpacked

    def _begin_stream(self) -> bytes:
        """Return the first bytes of the next stream, behind zeros that fill up; none: there is none."""
        packed = self._decoder.unused_data.lstrip(b"\0")
        while not packed:
            chunk = self._packed.read(CHUNK_BYTES)
            if not chunk:
                return b""
            packed = chunk.lstrip(b"\0")
        if not self._streams_left:
            raise TooCompressedError(f"The archive has more than {MAX_STREAMS} compressed streams; pack it as one.")
        self._streams_left -= 1
        self._decoder = self._new_decoder()
        return packed


def streams(packed: IO[bytes], new_decoder: Callable[[], Decoder], *, damage: type[Exception]) -> Readable:
    """Return the unpacked content of a compressed file, which may have several streams, at most MAX_STREAMS.

    The files of the standard library read any number of streams, and a megabyte of empty ones takes seconds. Reading
    raises TooCompressedError, EOFError, and ValueError for *damage*.

    Args:
        packed: is read from its start.
        new_decoder: makes the decoder of a stream.
        damage: what the decoder raises.
    """
    return io.BufferedReader(_Streams(packed, new_decoder, damage), CHUNK_BYTES)


class _GzipDecoder:
    """A decoder of one stream of gzip."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=31)  # with gzip's header and checksum
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        unpacked = self._stream.decompress(self._stream.unconsumed_tail + data, max_length)
        # A part that is full may have more behind it, in zlib's memory.
        self.needs_input = not self._stream.unconsumed_tail and len(unpacked) < max_length
        return unpacked


def gunzipped(content: IO[bytes]) -> Readable:
    """Return the unpacked content of a .gz file."""
    return streams(content, _GzipDecoder, damage=zlib.error)


class ArchiveReader:
    """Reads an archive once: iterate over its members; the data of one are read before the next member.

    Both raise an ArchiveError, and OSError if *content* itself cannot be read.

    Args:
        content: can be sought.
        unpacked: returns *content* without its compression.
    """

    def __init__(self, content: IO[bytes], *, unpacked: Callable[[IO[bytes]], Readable] = gunzipped) -> None:
        packed_bytes = content.seek(0, io.SEEK_END)
        self._source = _ForwardFile(
            unpacked(content),
            max_bytes=most_header_bytes(packed_bytes),
            max_unpacked_bytes=SMALL_ARCHIVE_UNPACKED_BYTES + UNPACKED_BYTES_OF_PACKED_BYTE * packed_bytes,
        )
        self._size_bytes = 0

    def __iter__(self) -> Iterator[Member]:
        """Yield the members; the header of the next is read only when it is requested."""
        source = self._source
        with _damage():
            archive = tarfile.TarFile(fileobj=source, mode="r", encoding="utf-8", errors="surrogateescape")
            while (info := archive.next()) is not None:
                if len(archive.pax_headers) > MAX_GLOBAL_ATTRIBUTES:
                    raise TooManyAttributesError(
                        f"The archive has more than {MAX_GLOBAL_ATTRIBUTES} global attributes."
                    )
                if len(info.pax_headers) > MAX_ATTRIBUTES:
                    raise TooManyAttributesError(f"A member has more than {MAX_ATTRIBUTES} attributes.")
                source.count(len(info.pax_headers) * BYTES_OF_ATTRIBUTE)
                member = _member(info)
                self._size_bytes = member.size_bytes
                yield member
                archive.members.clear()  # type: ignore[attr-defined]  # undocumented; tarfile would keep all members
                source.begin_member()
            # NB: tarfile takes a broken header as the end. A valid end is a block of zeros, or the end of the file.
            if source.last_read.strip(b"\0"):
                raise tarfile.ReadError("the archive is broken behind its last readable member")

    def data(self) -> Iterator[bytes]:
        """Yield the data of the present member, once, in chunks."""
        with _damage():
            yield from self._source.data(self._size_bytes)


def first_block(unpacked: Readable) -> bytes:
    """Return the first block; it is that of an archive if its checksum is right.

    Raises:
        DamagedError: it cannot be read.
    """
    with _damage():
        return _ForwardFile(unpacked, max_bytes=tarfile.BLOCKSIZE, max_unpacked_bytes=tarfile.BLOCKSIZE).read(
            tarfile.BLOCKSIZE
        )


@contextmanager
def _damage() -> Iterator[None]:
    """Raise DamagedError for what the standard library raises for damaged content."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # of the file itself
            raise
        raise DamagedError(str(error)) from error
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise DamagedError(str(error)) from error


def most_header_bytes(packed_bytes: int) -> int:
    """Return the most header bytes for an archive of this size."""
    beyond = max(0, packed_bytes - SMALL_ARCHIVE_BYTES)
    most = SMALL_ARCHIVE_HEADER_BYTES + HEADER_BYTES_OF_PACKED_BYTE * beyond
    return min(most, MEAN_HEADER_BYTES * (MAX_MEMBERS + 1))


def _member(info: tarfile.TarInfo) -> Member:
    return Member(
        name=info.name,
        kind=_kind_of(info),
        link_target=info.linkname if info.issym() or info.islnk() else "",
        mode=info.mode,
        size_bytes=info.size if info.isreg() or info.size < 0 else 0,
        mtime=info.mtime,
    )


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


class _ForwardFile:
    """The file that tarfile reads: forward only, so that no crafted offset makes a loop, with bounded headers.

    seek() skips the data of members, which do not count; all that is read is header.
    """

    def __init__(self, source: Readable, *, max_bytes: int, max_unpacked_bytes: int) -> None:
        self._source = source
        self._position = 0
        self._max_unpacked_bytes = max_unpacked_bytes
        self._left_bytes = max_bytes
        self._left_of_member_bytes = MAX_HEADER_BYTES
        self.last_read = b""

    def begin_member(self) -> None:
        """Reset the header count for the next member."""
        self._left_of_member_bytes = MAX_HEADER_BYTES

    def count(self, header_bytes: int) -> None:
        """Count further header bytes of the whole archive.

        Raises:
            TooLargeHeadersError: too many.
        """
        self._left_bytes -= header_bytes
        if self._left_bytes < 0:
            raise TooLargeHeadersError(_TOO_LARGE_HEADERS)

    def tell(self) -> int:
        """Return the position in the unpacked archive, in bytes."""
        return self._position

    def seek(self, position: int) -> None:
        """Skip to *position*, or to the end if that comes first."""
        if position < self._position:
            raise tarfile.ReadError("the archive leads backwards")
        while self._position < position:
            if not self._next(min(CHUNK_BYTES, position - self._position)):
                return

    def read(self, size: int) -> bytes:
        """Return *size* bytes, fewer only at the end."""
        if not 0 <= size <= self._left_of_member_bytes:
            raise TooLargeHeadersError(_TOO_LARGE_HEADERS)
        self.count(size)
        self._left_of_member_bytes -= size
        parts = []
        while size and (part := self._next(size)):
            parts.append(part)
            size -= len(part)
        self.last_read = b"".join(parts)
        return self.last_read

    def data(self, size: int) -> Iterator[bytes]:
        """Yield the next *size* bytes, which are not counted as header, in chunks."""
        while size > 0:
            chunk = self._next(min(CHUNK_BYTES, size))
            if not chunk:
                raise EOFError("the archive is cut off")
            size -= len(chunk)
            yield chunk

    def _next(self, size: int) -> bytes:
        """Return at most *size* bytes of the source; none at its end.

        Raises:
            TooCompressedError: it has more than an archive of its size may have.
        """
        part = self._source.read(size)
        self._position += len(part)
        if self._position > self._max_unpacked_bytes:
            raise TooCompressedError(
                f"The archive unpacks to more than {UNPACKED_BYTES_OF_PACKED_BYTE} times its size; pack it with gzip."
            )
        return part

    def write(self, _data: bytes) -> None:
        """Refuse: the archive is read-only; the type of tarfile requires the method."""
        raise io.UnsupportedOperation("write")

    def close(self) -> None:
        """Leave the source open, which belongs to the caller."""


# ---- Writer ----------------------------------------------------------------------------------------------------------

_TYPES = {
    MemberKind.FILE: tarfile.REGTYPE,
    MemberKind.DIRECTORY: tarfile.DIRTYPE,
    MemberKind.SYMLINK: tarfile.SYMTYPE,
    MemberKind.HARD_LINK: tarfile.LNKTYPE,
}


def blocks_of(member: Member, data: Iterable[bytes] = ()) -> Iterator[bytes]:
    """Yield what an archive contains of *member*, without compression; accounts of this machine are left out.

    After the last member, END ends the archive.

    Args:
        member: not a special one.
        data: of a file, as many bytes as its size.
    """
    info = tarfile.TarInfo(member.name)
    info.type, info.linkname, info.mode = _TYPES[member.kind], member.link_target, member.mode
    info.size, info.mtime = member.size_bytes, member.mtime
    try:
        # One block, where the other form has three for a name that is long or not ASCII. Such a name is UTF-8 here too.
        yield info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "surrogateescape")
    except ValueError:  # too long a name, or too large a number
        yield info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
    yield from data
    yield bytes(-member.size_bytes % tarfile.BLOCKSIZE)
