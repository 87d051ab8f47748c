"""The mark of the highest ids, in a file outside of the database: no id is given twice, also after a restore (ADR 102).

The file says which ids of each table had been given a few seconds ago, and the row ``IdMark`` which version of the file
it has written. A database that does not know the version of the file was set back: the ids that it gave afterwards are
lost with it, but scripts, pilots and people know them.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import msgspec
from django.conf import settings
from django.db import connection, transaction

from wms.accounts.models import VO
from wms.kernel.db import DatabaseNow, LockKey, lock
from wms.kernel.private_files import write_private
from wms.kernel.trusted_paths import require_trusted
from wms.operations.models import IdMark
from wms.wire.private_directories import make_private

logger = logging.getLogger(__name__)

#: Ids of one table that may have been given since the last writing of the file: more than in minutes of the busiest
#: table, and after a restore the numbers still have at most a digit more.
STEP: Final = 1_000_000

# Django makes one sequence for each table. The timeline changes when PostgreSQL recovers to an earlier moment.
_SEQUENCES: Final = """
SELECT sequencename, coalesce(last_value, 0), max_value, (SELECT timeline_id FROM pg_control_checkpoint())
  FROM pg_sequences
 WHERE schemaname = current_schema()
"""
_RAISE: Final = "SELECT setval(quote_ident(%s)::regclass, %s)"


class Mark(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file."""

    #: Of this file: each machine that does background work has its own.
    file: UUID
    version: UUID
    timeline: int
    #: {sequence: its last value when the file was written}.
    given: Mapping[str, int]

    def highest(self, sequence: str) -> int:
        """Return an id above which the sequence has given none."""
        return self.given[sequence] + STEP if sequence in self.given else 0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a comparison of the database with its mark."""

    #: Whether the database was set back to an earlier state.
    was_set_back: bool
    #: {sequence: the value from which it goes on}; empty: all go on as they were.
    raised: Mapping[str, int]


def mark_file(database: UUID) -> Path:
    """Return the path of this machine's mark of a database, and of those that are restored from it."""
    return Path(settings.WMS_ID_MARK_DIR) / f"{database}.json"


def read_mark(path: Path) -> Mark | None:
    """Return the mark in a file; None: there is no file.

    Raises:
        UntrustedPathError: another account could have written it.
        msgspec.MsgspecError: it is no mark.
    """
    if not path.exists():
        return None
    require_trusted(path)
    return msgspec.json.decode(path.read_bytes(), type=Mark)


def keep() -> Kept:
    """Bring the mark up to date; in a database that was set back, begin beyond it and pause matching first.

    The pause is as long as a lease: meanwhile pilots that the database does not know any more hear that their leases
    have ended, or stop by themselves, and only then are their jobs, which wait again, given to others.

    Raises:
        UntrustedPathError, msgspec.MsgspecError: as of ``read_mark``.
        OSError: the file cannot be written.
    """
    with transaction.atomic():
        lock(LockKey.ID_MARK)
        row, _ = IdMark.objects.get_or_create(pk=1)
        path = mark_file(row.database)
        mark = read_mark(path)
        given, most, timeline = _sequences()
        known = [] if mark is None else row.versions.get(str(mark.file), [])
        was_set_back = mark is not None and str(mark.version) not in known
        raised = {}
        if mark is not None and (was_set_back or mark.timeline != timeline):
            beyond = {name: min(mark.highest(name), most[name]) for name in given}
            raised = {name: value for name, value in beyond.items() if given[name] < value}
            _raise(raised)
            given |= raised
        if was_set_back:
            _pause()
            logger.warning("database.was_set_back", extra={"mark": str(path), "pause_s": settings.WMS_LEASE_S})
        if mark is not None and mark.timeline == timeline and mark.given == given and not was_set_back:
            return Kept(was_set_back=False, raised={})
        written = Mark(file=mark.file if mark else uuid4(), version=uuid4(), timeline=timeline, given=given)
        # Both versions are known: this process may be killed before the file is written.
        row.versions[str(written.file)] = [str(each.version) for each in (written, mark) if each is not None]
        row.save()
    make_private(path.parent)
    write_private(path, msgspec.json.encode(written).decode())
    return Kept(was_set_back=was_set_back, raised=raised)


def last_ids() -> Mapping[str, int]:
    """Return the last value of each sequence."""
    return _sequences()[0]


def _sequences() -> tuple[dict[str, int], Mapping[str, int], int]:
    """Return the last values of all sequences, their largest possible ones, and the timeline of the server."""
    with connection.cursor() as cursor:
        cursor.execute(_SEQUENCES)
        rows = cursor.fetchall()
    given = {name: last for name, last, _, _ in rows}
    return given, {name: most for name, _, most, _ in rows}, max((timeline for *_, timeline in rows), default=0)


def _raise(values: Mapping[str, int]) -> None:
    with connection.cursor() as cursor:
        for name, value in values.items():
            cursor.execute(_RAISE, [name, value])


def _pause() -> None:
    VO.objects.update(
        paused_until=DatabaseNow() + timedelta(seconds=settings.WMS_LEASE_S),
        pause_reason="the database was restored, and pilots of before may still run these jobs",
    )
