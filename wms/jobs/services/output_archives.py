"""One archive of the outputs of many jobs, made while it is sent: memory is bounded whatever their number and size.

Each output is a .tar.gz that was checked when it was uploaded; its members are stored below a directory of its job.
"""

import gzip
import logging
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from io import RawIOBase
from typing import Final

from wms.jobs.queries.submissions import JobOutput
from wms.jobs.services.archives import DAMAGE
from wms.jobs.services.sandbox_files import open_stored
from wms.wire.protocol import components

logger = logging.getLogger(__name__)

#: Bytes of a piece of the archive, compressed, and of content read at a time.
PIECE_BYTES: Final = 256 * 1024
CHUNK_BYTES: Final = 64 * 1024
#: Outputs are compressed once more: a higher level would take several times as long for a few percent.
_LEVEL: Final = 1
#: Name of the list of jobs whose outputs are missing or incomplete.
FLAWS_NAME: Final = "incomplete.txt"


class _Sink(RawIOBase):
    """A file that keeps what is written until it is taken."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: list[bytes] = []
        self.kept_bytes = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # gzip writes bytes
        """Keep the data."""
        self._kept.append(bytes(data))
        self.kept_bytes += len(data)
        return len(data)

    def take(self) -> bytes:
        """Return what was kept, and keep it no longer."""
        kept, self._kept, self.kept_bytes = b"".join(self._kept), [], 0
        return kept


@dataclass(slots=True)
class _Flaws:
    """Jobs whose outputs could not be read to the end."""

    job_ids: list[int] = field(default_factory=list)


def packed_outputs(outputs: Iterable[JobOutput], *, now: datetime) -> Iterator[bytes]:
    """Yield a .tar.gz with a directory ``job-<id>`` for each output, piece by piece.

    An output that cannot be read to its end, because it was removed meanwhile, for example, is named in FLAWS_NAME.

    Args:
        outputs: in the order of the archive.
        now: time of the directories.
    """
    sink, flaws = _Sink(), _Flaws()
    with gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=_LEVEL, mtime=0) as archive:
        for block in _blocks(outputs, flaws, mtime=now.timestamp()):
            archive.write(block)
            if sink.kept_bytes >= PIECE_BYTES:
                yield sink.take()
    yield sink.take()


def _blocks(outputs: Iterable[JobOutput], flaws: _Flaws, *, mtime: float) -> Iterator[bytes]:
    for output in outputs:
        directory = tarfile.TarInfo(f"job-{output.job_id}")
        directory.type, directory.mode, directory.mtime = tarfile.DIRTYPE, 0o755, mtime
        yield _header(directory)
        try:
            with open_stored(output.digest) as stored, tarfile.open(fileobj=stored, mode="r|gz") as archive:
                yield from _members(archive, output.job_id, flaws)
        except DAMAGE:
            logger.warning("outputs.not_readable", extra={"job_id": output.job_id}, exc_info=True)
            flaws.job_ids.append(output.job_id)
    if flaws.job_ids:
        sentence = "The outputs of these jobs could not be read to the end:"
        text = f"{sentence}\n{chr(10).join(map(str, dict.fromkeys(flaws.job_ids)))}\n".encode()
        listing = tarfile.TarInfo(FLAWS_NAME)
        listing.size, listing.mtime = len(text), mtime
        yield _header(listing) + text + _padding(len(text))
    yield bytes(2 * tarfile.BLOCKSIZE)


def _members(archive: tarfile.TarFile, job_id: int, flaws: _Flaws) -> Iterator[bytes]:
    while (member := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # undocumented; tarfile would keep all members
        path = components(member.name)
        if not path:  # the top itself
            continue
        yield _header(_below(member, job_id, path))
        if member.isreg():
            yield from _content(archive, member, job_id, flaws)


def _below(member: tarfile.TarInfo, job_id: int, path: Iterable[str]) -> tarfile.TarInfo:
    """Return the header of the member below the directory of its job; the accounts of the node are left out."""
    moved = tarfile.TarInfo("/".join((f"job-{job_id}", *path)))
    moved.type = tarfile.REGTYPE if member.isreg() else member.type
    moved.size = member.size if member.isreg() else 0
    moved.mode, moved.mtime = member.mode, member.mtime
    if member.issym():
        moved.linkname = member.linkname
    elif member.islnk():
        # To another member, by its name in the archive.
        moved.linkname = "/".join((f"job-{job_id}", *components(member.linkname)))
    return moved


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, job_id: int, flaws: _Flaws) -> Iterator[bytes]:
    """Yield the content of a file; after its header as many bytes must follow, so lost ones are zeros."""
    left = member.size
    try:
        file = archive.extractfile(member)
        while file is not None and left and (chunk := file.read(min(left, CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk
    except DAMAGE:
        logger.warning("outputs.not_readable", extra={"job_id": job_id}, exc_info=True)
    if left:
        flaws.job_ids.append(job_id)
    while left:
        lost = bytes(min(left, CHUNK_BYTES))
        left -= len(lost)
        yield lost
    yield _padding(member.size)


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)
