"""Inspection of uploaded archives, member by member, without unpacking; the rules are in wms.jobs.domain.archives."""

import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import IO

from wms.jobs.domain.archives import SandboxTooLargeError, UnsafeArchiveError, check_members
from wms.kernel.errors import RejectedError
from wms.wire.archives import (
    GZIP,
    MAX_MEMBERS,
    ArchiveError,
    ArchiveReader,
    DamagedError,
    Member,
    TooCompressedError,
    TooLargeHeadersError,
    TooManyAttributesError,
    first_block,
)
from wms.wire.compressions import unpacked


class DamagedArchiveError(RejectedError):
    """The content begins as an archive but cannot be read to its end."""

    code = "damaged_archive"


class NoOutputArchiveError(RejectedError):
    """The output of a job is not a .tar.gz archive."""

    code = "no_archive"


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
    if not content.read(2).startswith(GZIP):
        raise NoOutputArchiveError("The output sandbox must be an archive in the form .tar.gz.")
    if not _begins_as_archive(content) and _first_block(content) != bytes(tarfile.BLOCKSIZE):
        raise NoOutputArchiveError("The output sandbox must be a gzipped tar archive; this one holds something else.")
    _check(content, max_unpacked_bytes=max_unpacked_bytes)


def members_of(content: IO[bytes], *, max_unpacked_bytes: int) -> list[Member]:
    """Return the members of an archive, in their order, which can all be unpacked safely.

    Raises:
        UnsafeArchiveError, SandboxTooLargeError, DamagedArchiveError: as ``is_safe_archive``.
    """
    accepted: list[Member] = []

    def noted() -> Iterator[Member]:
        for member in ArchiveReader(content, unpacked=unpacked):
            yield member
            accepted.append(member)

    with _refusals("The archive is damaged or incomplete."):
        check_members(noted(), max_members=MAX_MEMBERS, max_unpacked_bytes=max_unpacked_bytes)
    return accepted


def data_of_member(content: IO[bytes], *, position: int) -> Generator[bytes]:
    """Yield the data of the member at *position*, from 0, of an archive that ``members_of`` has accepted."""
    reader = ArchiveReader(content, unpacked=unpacked)
    for number, _ in enumerate(reader):
        if number == position:
            yield from reader.data()
            return


def _check(content: IO[bytes], *, max_unpacked_bytes: int) -> None:
    with _refusals("The archive is damaged or incomplete. Pack and send it again."):
        members = ArchiveReader(content, unpacked=unpacked)
        check_members(members, max_members=MAX_MEMBERS, max_unpacked_bytes=max_unpacked_bytes)


@contextmanager
def _refusals(damaged: str) -> Iterator[None]:
    """Refuse an archive that cannot be read, a damaged one with this sentence."""
    try:
        yield
    except (TooLargeHeadersError, TooCompressedError) as error:
        raise SandboxTooLargeError(str(error)) from error
    except TooManyAttributesError as error:
        raise UnsafeArchiveError(str(error)) from error
    except (DamagedError, OSError) as error:
        raise DamagedArchiveError(damaged) from error


def _first_block(content: IO[bytes]) -> bytes:
    try:
        return first_block(unpacked(content))
    except (ArchiveError, OSError):
        return b""


def _begins_as_archive(content: IO[bytes]) -> bool:
    try:
        tarfile.TarInfo.frombuf(_first_block(content), "utf-8", "surrogateescape")
    except tarfile.HeaderError:  # wrong checksum
        return False
    return True
