"""Tiles about the database server, the broker, backups, volumes, the clock and versions."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings

from wms.kernel.clock import clock_ahead, complaint_of_clock
from wms.kernel.database_version import recorded_version, refusal_of_running
from wms.kernel.time_texts import duration
from wms.operations.broker import queue_depths
from wms.operations.database import Transaction
from wms.operations.disks import Disk
from wms.operations.models import LastBackup
from wms.operations.tile import Tile, shown
from wms.wire.version import __version__

#: Part of the connections that may be in use.
MOST_CONNECTIONS: Final = 0.9
#: Seconds of a transaction: none of this system takes as long, and dead rows stay for as long.
LONGEST_TRANSACTION_S: Final = 600.0
#: Dead rows of a table; autovacuum removes them before there are as many.
MOST_DEAD_ROWS: Final = 10_000_000
#: Seconds since the last backup: two nights, of which one may fail.
OLDEST_BACKUP_S: Final = 50 * 3600.0
#: Part of a volume that should be free.
LEAST_FREE: Final = 0.05


def connections_tile(used: Mapping[str, int], *, most: int) -> Tile:
    """Return the tile of the connections; *used* is by application_name."""
    total = sum(used.values())
    is_well = total < MOST_CONNECTIONS * most
    by_number = sorted(used.items(), key=lambda item: (-item[1], item[0]))
    return Tile(
        name="Database connections",
        is_well=is_well,
        text=f"{total:,} of {most:,}",
        to_do="" if is_well else "Raise max_connections of PostgreSQL, or run fewer web processes (--web-workers).",
        lines=shown([f"{name or 'without a name'}: {number:,}" for name, number in by_number]),
    )


def transaction_tile(longest: Transaction | None, *, now: datetime, most_s: float = LONGEST_TRANSACTION_S) -> Tile:
    """Return the tile of the longest open transaction."""
    name = "Longest transaction"
    if longest is None:
        return Tile(name=name, is_well=True, text="none is open")
    is_well = longest.seconds < most_s
    of = longest.application_name or "a client without a name"
    return Tile(
        name=name,
        is_well=is_well,
        text=f"{duration(longest.seconds)}, of {of}, process {longest.pid} of PostgreSQL",
        since=None if is_well else now - timedelta(seconds=longest.seconds),
        to_do=""
        if is_well
        else f"Unless it is a backup, end it: SELECT pg_terminate_backend({longest.pid}); dead rows stay until then.",
    )


def size_tile(size_bytes: int) -> Tile:
    """Return the tile of the size of the database."""
    return Tile(name="Database size", is_well=True, text=_in_words(size_bytes))


def dead_rows_tile(dead: Mapping[str, int], *, most: int = MOST_DEAD_ROWS) -> Tile:
    """Return the tile of the dead rows; *dead* is by table, most first."""
    is_well = all(number <= most for number in dead.values())
    return Tile(
        name="Dead rows",
        is_well=is_well,
        text=f"{sum(dead.values()):,}",
        to_do="" if is_well else "End the longest transaction, and make autovacuum more eager for this table.",
        lines=shown([f"{table}: {number:,}" for table, number in dead.items()]),
    )


def backup_tile(*, now: datetime) -> Tile:
    """Return the tile of the last backup; red when there were some, and the last one is old."""
    name, last = "Backup", LastBackup.objects.first()
    if last is None:
        return Tile(name=name, is_well=True, text="none was made by `wms-server backup`")
    age_s = (now - last.finished_at).total_seconds()
    is_well = age_s < OLDEST_BACKUP_S
    return Tile(
        name=name,
        is_well=is_well,
        text=f"the last one was made {duration(age_s)} ago",
        since=None if is_well else last.finished_at,
        to_do="" if is_well else "Look at the timer that runs `wms-server backup`, and at the log of its last run.",
    )


def broker_tile() -> Tile:
    """Return the tile of the broker, which is asked."""
    depths = queue_depths()
    if depths is None:
        return Tile(
            name="Broker",
            is_well=False,
            text="does not answer, or accepts no value",
            to_do="Start Valkey again, or give it memory; until then no pilots are sent, and no lease expires.",
        )
    waiting = ", ".join(f"{number:,} in {queue}" for queue, number in depths.items())
    return Tile(name="Broker", is_well=True, text=f"answers; tasks that wait: {waiting}")


def disk_tiles(disks: Sequence[Disk] | None, *, least_free: float = LEAST_FREE) -> Sequence[Tile]:
    """Return a tile for each volume; None: they did not answer in time."""
    if disks is None:
        to_do = "Look at the network file system, if one is mounted there: the server waits for it, too."
        return [Tile(name="Disks", is_well=False, text="a volume does not answer", to_do=to_do)]
    return [_disk_tile(disk, least_free=least_free) for disk in disks]


def _disk_tile(disk: Disk, *, least_free: float) -> Tile:
    part = disk.free_bytes / max(1, disk.total_bytes)
    # Twice the space that is left to running jobs, so that uploads are not refused yet.
    least_bytes = 2 * settings.WMS_SANDBOX_MIN_FREE_MB * 1024 * 1024
    is_well = part >= least_free and disk.free_bytes >= least_bytes
    return Tile(
        name=f"Disk of {disk.path}",
        is_well=is_well,
        text=f"{_in_words(disk.free_bytes)} of {_in_words(disk.total_bytes)} free ({part:.0%})",
        to_do=""
        if is_well
        else f"Make room: uploads are refused below {settings.WMS_SANDBOX_MIN_FREE_MB:,} MB, and PostgreSQL stops "
        "when its disk is full.",
    )


def clock_tile() -> Tile:
    """Return the tile of the clock of the machine of this web process."""
    complaint = complaint_of_clock()
    return Tile(
        name="Clock",
        is_well=not complaint,
        text=complaint.partition(":")[0]
        or f"differs from the database's by {duration(abs(clock_ahead().total_seconds()))}",
        to_do="Synchronise the clocks of this machine and of the database's (chronyd)." if complaint else "",
    )


def version_tile() -> Tile:
    """Return the tile of the versions of program and database."""
    refusal = refusal_of_running()
    migrated = recorded_version() or "one that is not recorded"
    return Tile(
        name="Versions",
        is_well=refusal is None,
        text=f"program {__version__}; database migrated by {migrated}",
        to_do=refusal or "",
    )


def _in_words(size_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.3g} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:,.3g} TB" if size_bytes < 1000 else f"{size_bytes:,.0f} TB"
