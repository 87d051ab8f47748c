"""One archive of the outputs of many jobs, made while it is sent: memory is bounded whatever their number and size.

Each output is a .tar.gz that was checked when it was uploaded; its members are stored below a directory of its job.
"""

import gzip
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from io import RawIOBase
from typing import Final

from wms.jobs.queries.submissions import JobOutput
from wms.jobs.services.sandbox_files import open_stored
from wms.wire.archives import CHUNK_BYTES, END, ArchiveError, ArchiveReader, Member, MemberKind, blocks_of, components

logger = logging.getLogger(__name__)

#: Bytes of a piece of the archive, compressed.
PIECE_BYTES: Final = 256 * 1024
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
        yield from blocks_of(Member(f"job-{output.job_id}", MemberKind.DIRECTORY, mode=0o755, mtime=mtime))
        try:
            with open_stored(output.digest) as stored:
                yield from _members(ArchiveReader(stored), output.job_id, flaws)
        except (ArchiveError, OSError):
            logger.warning("outputs.not_readable", extra={"job_id": output.job_id}, exc_info=True)
            flaws.job_ids.append(output.job_id)
    if flaws.job_ids:
        sentence = "The outputs of these jobs could not be read to the end:"
        text = f"{sentence}\n{chr(10).join(map(str, dict.fromkeys(flaws.job_ids)))}\n".encode()
        yield from blocks_of(Member(FLAWS_NAME, MemberKind.FILE, size_bytes=len(text), mtime=mtime), [text])
    yield END


def _members(reader: ArchiveReader, job_id: int, flaws: _Flaws) -> Iterator[bytes]:
    for member in reader:
        if path := components(member.name):  # not the top itself
            yield from blocks_of(_below(member, job_id, path), _data(reader, member, job_id, flaws))


def _below(member: Member, job_id: int, path: Iterable[str]) -> Member:
    """Return the member below the directory of its job."""
    target = member.link_target
    if member.kind is MemberKind.HARD_LINK:  # to another member, by its name in the archive
        target = "/".join((f"job-{job_id}", *components(target)))
    return member._replace(name="/".join((f"job-{job_id}", *path)), link_target=target)


def _data(reader: ArchiveReader, member: Member, job_id: int, flaws: _Flaws) -> Iterator[bytes]:
    """Yield the data of a member; after its header as many bytes must follow, so lost ones are zeros."""
    left = member.size_bytes
    try:
        for chunk in reader.data():
            left -= len(chunk)
            yield chunk
    except (ArchiveError, OSError):
        logger.warning("outputs.not_readable", extra={"job_id": job_id}, exc_info=True)
        flaws.job_ids.append(job_id)
    while left:
        lost = bytes(min(left, CHUNK_BYTES))
        left -= len(lost)
        yield lost
