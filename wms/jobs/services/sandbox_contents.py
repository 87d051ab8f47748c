"""Contents of archives among sandboxes: the list of their files and single files, read from the archive as a stream."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from django.conf import settings
from django.core.files import File

from wms.jobs.models import Sandbox
from wms.jobs.services import sandbox_files
from wms.jobs.services.archives import data_of_member, members_of
from wms.kernel.errors import NotFoundError
from wms.kernel.memo import RecentlyUsed
from wms.wire.archives import Member, MemberKind, components

#: Files of one archive that are listed, and can be read one by one; most have few, but may have MAX_MEMBERS.
MOST_LISTED: Final = 1000
#: Bytes of lists that a process keeps: a content never changes, and reading its list unpacks all of it.
_MOST_BYTES: Final = 8 * 1024 * 1024
#: Of a file, beside its name and the target of its link.
_BYTES_OF_FILE: Final = 250


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One member of a stored archive that is not a directory."""

    #: Path in the archive, without "." and doubled slashes.
    name: str
    size_bytes: int
    #: Number of the member in the archive, from 0.
    position: int
    #: Of a symbolic or hard link; empty: a file.
    link_target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The files of a stored archive, by name; the first MOST_LISTED of *count*."""

    files: Sequence[StoredFile]
    count: int


def _bytes_of(_digest: str, contents: Contents) -> int:
    return sum(_BYTES_OF_FILE + len(file.name) + len(file.link_target) for file in contents.files)


_lists: Final[RecentlyUsed[str, Contents]] = RecentlyUsed(most=_MOST_BYTES, unused_s=600.0, size_of=_bytes_of)


def contents_of(sandbox: Sandbox) -> Contents:
    """Return the files of a stored archive.

    Its members are checked again, so that an archive from any source is read within the bounds of uploads.

    Raises:
        NotFoundError: it is no longer stored.
        UnsafeArchiveError, SandboxTooLargeError, DamagedArchiveError: it cannot be read safely.
    """
    return _lists.recall(sandbox.digest, lambda: _contents(sandbox.digest))


def file_named(sandbox: Sandbox, *, name: str) -> StoredFile:
    """Return the file of this name that unpacking leaves.

    Raises:
        NotFoundError: there is none among those listed; otherwise as ``contents_of``.
    """
    file = next((file for file in contents_of(sandbox).files if file.name == name), None)
    if file is None or file.link_target:
        raise NotFoundError("The archive has no file of that name.")
    return file


class FileStream:
    """The data of a file in chunks, read from an open archive, which close() closes."""

    def __init__(self, sandbox: Sandbox, *, file: StoredFile) -> None:
        """Open the archive.

        Raises:
            NotFoundError: it is no longer stored.
        """
        self._content = _opened(sandbox.digest)
        self._chunks = data_of_member(self._content, position=file.position)

    def __iter__(self) -> Iterator[bytes]:
        """Return the chunks."""
        return self._chunks

    def close(self) -> None:
        """Close the archive."""
        self._chunks.close()
        self._content.close()


def start_of(sandbox: Sandbox, *, file: StoredFile, most_bytes: int) -> bytes:
    """Return the first *most_bytes* of a file; no more than a chunk of the rest is unpacked.

    Raises:
        NotFoundError: the archive is no longer stored.
    """
    start = bytearray()
    with closing(FileStream(sandbox, file=file)) as chunks:
        for chunk in chunks:
            start += chunk
            if len(start) >= most_bytes:
                break
    return bytes(start[:most_bytes])


def _opened(digest: str) -> "File[bytes]":
    try:
        return sandbox_files.open_stored(digest)
    except FileNotFoundError as error:
        raise NotFoundError("The archive is no longer stored.") from error


def _contents(digest: str) -> Contents:
    with closing(_opened(digest)) as content:
        members = members_of(content, max_unpacked_bytes=settings.WMS_SANDBOX_MAX_UNPACKED_BYTES)
    # Of members with the same name, unpacking leaves the last.
    files = {
        "/".join(components(member.name)): _stored(member, position)
        for position, member in enumerate(members)
        if member.kind is not MemberKind.DIRECTORY
    }
    return Contents(files=tuple(files[name] for name in sorted(files)[:MOST_LISTED]), count=len(files))


def _stored(member: Member, position: int) -> StoredFile:
    return StoredFile(
        name="/".join(components(member.name)),
        size_bytes=member.size_bytes,
        position=position,
        link_target=member.link_target,
    )
