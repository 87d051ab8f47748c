"""All tiles of the Operations page. Each question to something outside of this process ends within a moment."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from threading import Lock, Thread
from typing import Final, Generic, NamedTuple, TypeVar

from django.db import Error, connection, transaction

from wms.kernel.liveness import reports
from wms.operations import database
from wms.operations.disks import Disk, disks
from wms.operations.grid_tiles import (
    black_holes_tile,
    ces_tile,
    directors_tile,
    limits_tile,
    pauses_tile,
    throttles_tile,
)
from wms.operations.part_tiles import TaskTile, index_tile, part_tiles, report_tiles, task_tiles
from wms.operations.server_tiles import (
    backup_tile,
    broker_tile,
    clock_tile,
    connections_tile,
    dead_rows_tile,
    disk_tiles,
    size_tile,
    transaction_tile,
    version_tile,
)
from wms.operations.tile import Tile

#: Seconds of each statement, and of a question to the file systems.
STATEMENT_WITHIN_S: Final = 1.0
_DISKS_WITHIN_S: Final = 0.1

T = TypeVar("T")


class Tiles(NamedTuple):
    """The tiles of the page, those in trouble first."""

    tiles: Sequence[Tile]
    #: Of periodic tasks; empty if the database does not answer.
    tasks: Sequence[TaskTile]


def all_tiles(*, now: datetime) -> Tiles:
    """Return all tiles at *now*, by the database's clock."""
    outside = [
        *part_tiles(now=now),
        broker_tile(),
        *disk_tiles(_disks.answer(_DISKS_WITHIN_S)),
        clock_tile(),
        index_tile(),
    ]
    try:
        with transaction.atomic():
            inside, tasks = _from_database(now=now)
    except Error as error:
        text = str(error).strip().partition("\n")[0]
        to_do = "Look at the log of PostgreSQL, and at its load; the other tiles that need it are missing."
        inside, tasks = [Tile(name="Database", is_well=False, text=f"does not answer: {text}", to_do=to_do)], []
    return Tiles(sorted([*inside, *outside], key=lambda tile: tile.is_well), tasks)


def _from_database(*, now: datetime) -> tuple[Sequence[Tile], Sequence[TaskTile]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {STATEMENT_WITHIN_S * 1000:.0f}")
    reported = reports()
    tiles = [
        connections_tile(database.connections(), most=database.most_connections()),
        transaction_tile(database.longest_transaction(), now=now),
        size_tile(database.database_size_bytes()),
        dead_rows_tile(database.dead_rows()),
        backup_tile(now=now),
        *report_tiles(reported, now=now),
        directors_tile(now=now),
        ces_tile(now=now),
        black_holes_tile(now=now),
        throttles_tile(now=now),
        limits_tile(),
        pauses_tile(now=now),
        version_tile(),
    ]
    return tiles, task_tiles(reported, now=now)


class Question(Generic[T]):
    """A question that may hang, as one to a network file system: asked in a thread, at most one at a time."""

    def __init__(self, ask: Callable[[], T]) -> None:
        self._ask = ask
        self._lock = Lock()
        self._thread = Thread()
        self._answers: list[T] = []

    def answer(self, within_s: float) -> T | None:
        """Return the answer; None: there is none in so many seconds, or it is an error."""
        with self._lock:
            if not self._thread.is_alive():
                self._answers = []
                self._thread = Thread(target=self._run, args=(self._answers,), name="question", daemon=True)
                self._thread.start()
            thread, answers = self._thread, self._answers
        thread.join(within_s)
        return answers[0] if answers else None

    def _run(self, answers: list[T]) -> None:
        with suppress(OSError):
            answers.append(self._ask())


_disks: Final[Question[Sequence[Disk]]] = Question(disks)
