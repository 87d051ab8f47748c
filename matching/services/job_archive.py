"""The archive of removed jobs: files of Parquet, one for each VO and day (ADR 100).

A file is complete, synced and read back before the transaction that removes its jobs commits, and its row is written
in this transaction. So a job is in the database or in a file that has a row, never in both, whenever somebody kills it.
Until the commit the name of the file ends in ``.part``; one without a row was never part of the archive.
"""

import json
import os
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from hashlib import file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.db.models import Count, Max

from matching.queries.archived_rows import COLUMNS, Value, rows_of
from wms.accounts.models import VO
from wms.jobs.models import ArchiveFile, ArchiveState
from wms.kernel.db import transaction_required
from wms.kernel.private_files import DIRECTORY_MODE, FILE_MODE, sync_directory, write_private
from wms.kernel.trusted_paths import require_trusted

if TYPE_CHECKING:
    from pyarrow import Schema, Table

PART: Final = ".part"
_JSON: Final = frozenset(name for name, kind in COLUMNS if kind == "json")


class JobArchiveError(Exception):
    """The archive cannot be used, with a sentence that says why; nothing was removed."""


def is_on() -> bool:
    """Return whether removed jobs are archived."""
    return bool(settings.WMS_ARCHIVE_DIR)


def path_of(file: ArchiveFile) -> Path:
    """Return the path of a file when it is in place."""
    return Path(settings.WMS_ARCHIVE_DIR) / file.vo.name / f"{file.day}-{file.number:05}.parquet"


def _part_of(file: ArchiveFile) -> Path:
    return path_of(file).with_name(path_of(file).name + PART)


@transaction_required
def write(job_ids: Sequence[int], *, now: datetime) -> None:
    """Write the jobs, which the caller has locked and removes next, to new files; return when these are on the disk.

    Raises:
        JobArchiveError: pyarrow is not installed, or what was written is not what is read back.
        OSError: the disk is full, or the directory not writable.
        UntrustedPathError: another account could change the directory.
    """
    _require()
    vos = VO.objects.in_bulk()
    for vo_id, rows in sorted(rows_of(job_ids).items()):
        file = _new_file(vos[vo_id], now.astimezone(UTC).date())
        file.jobs, file.first_job_id, file.last_job_id = len(rows), int(str(rows[0][0])), int(str(rows[-1][0]))
        _save(file, [partial(_table, rows)])


@transaction_required
def settle() -> None:
    """Finish what a run has left that was killed after its commit, and delete what it has left before one.

    The caller holds the lock of removals, so that no other run is writing.
    """
    known = list(ArchiveFile.objects.exclude(state=ArchiveState.IN_PLACE).select_related("vo"))
    # First: for who reads the directory no job is in two files.
    for file in known:
        if file.state == ArchiveState.SUPERSEDED:
            path_of(file).unlink(missing_ok=True)
            _part_of(file).unlink(missing_ok=True)
            file.delete()
    for file in known:
        if file.state == ArchiveState.WRITTEN:
            part, path = _part_of(file), path_of(file)
            if part.exists():
                part.replace(path)
                sync_directory(path.parent)
            _require_whole(file, path)
            ArchiveFile.objects.filter(pk=file.pk).update(state=ArchiveState.IN_PLACE)
            _write_manifest(file.vo, file.day)
    for part in Path(settings.WMS_ARCHIVE_DIR).glob(f"*/*{PART}"):
        part.unlink()


@transaction_required
def merge_a_day(*, now: datetime) -> bool:
    """Make one file of those of a VO and an earlier day; return whether there was such a day."""
    several = (
        ArchiveFile.objects.filter(day__lt=now.astimezone(UTC).date(), state=ArchiveState.IN_PLACE)
        .values("vo", "day")
        .annotate(files=Count("pk"))
        .filter(files__gt=1)
    )
    found = several.order_by("day", "vo").first()
    if found is None:
        return False
    _require()
    files = list(
        ArchiveFile.objects.filter(vo=found["vo"], day=found["day"], state=ArchiveState.IN_PLACE)
        .select_related("vo")
        .order_by("number")
    )
    for each in files:
        _require_whole(each, path_of(each))
    whole = _new_file(files[0].vo, files[0].day)
    whole.jobs = sum(each.jobs for each in files)
    whole.first_job_id = min(each.first_job_id for each in files)
    whole.last_job_id = max(each.last_job_id for each in files)
    _save(whole, [partial(_read, path_of(each)) for each in files])
    ArchiveFile.objects.filter(pk__in=[each.pk for each in files]).update(state=ArchiveState.SUPERSEDED)
    return True


def archived(job_id: int) -> dict[str, object] | None:
    """Return a removed job, its values by name of COLUMNS; None: it is in no file.

    Raises:
        JobArchiveError: pyarrow is not installed, or the file is not there.
    """
    files = ArchiveFile.objects.exclude(state=ArchiveState.SUPERSEDED).select_related("vo")
    for file in files.filter(first_job_id__lte=job_id, last_job_id__gte=job_id):
        _require()
        from pyarrow import parquet  # noqa: PLC0415 - an extra

        path = next((path for path in (path_of(file), _part_of(file)) if path.exists()), None)
        if path is None:
            raise JobArchiveError(f"{path_of(file)} is not there; restore it from a backup of the archive.")
        for row in parquet.read_table(path, filters=[("id", "==", job_id)]).to_pylist():
            return {name: json.loads(value) if name in _JSON and value else value for name, value in row.items()}
    return None


def _require() -> None:
    if find_spec("pyarrow") is None:
        raise JobArchiveError(
            "The archive of jobs needs pyarrow; install wms-server[archive], or leave WMS_ARCHIVE_DIR empty."
        )


def _new_file(vo: VO, day: date) -> ArchiveFile:
    last = ArchiveFile.objects.filter(vo=vo, day=day).aggregate(last=Max("number"))["last"] or 0
    return ArchiveFile(vo=vo, day=day, number=last + 1)


def _schema() -> "Schema":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = {
        "integer": pa.int64(),
        "number": pa.float64(),
        "text": pa.string(),
        "json": pa.string(),
        "time": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in COLUMNS])


def _table(rows: Sequence[tuple[Value, ...]]) -> "Table":
    import pyarrow as pa  # noqa: PLC0415 - an extra

    names = [name for name, _ in COLUMNS]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)), schema=_schema())


def _save(file: ArchiveFile, tables: Sequence[Callable[[], "Table"]]) -> None:
    """Write tables to the file's part, sync it, compare what is read back, and write the file's row.

    Each table is made twice, so that one at a time is in memory.
    """
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    part, path = _part_of(file), path_of(file)
    root = Path(settings.WMS_ARCHIVE_DIR)
    root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    part.parent.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    require_trusted(part.parent)
    sync_directory(root.parent)
    sync_directory(root)
    if path.exists():
        raise JobArchiveError(
            f"{path} is there, but the database does not know it; move it elsewhere. No job was removed."
        )
    part.unlink(missing_ok=True)  # of a run that was killed
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
    with os.fdopen(descriptor, "wb") as output:
        with parquet.ParquetWriter(output, _schema(), compression="zstd") as writer:
            for table in tables:
                writer.write_table(table())
        output.flush()
        os.fsync(output.fileno())
    sync_directory(part.parent)
    with parquet.ParquetFile(part) as stored:
        is_same = stored.num_row_groups == len(tables) and all(
            stored.read_row_group(number).equals(table()) for number, table in enumerate(tables)
        )
    if not is_same:
        raise JobArchiveError(f"{part} is not as it was written; look at the disk. No job was removed.")
    file.size_bytes, file.digest = part.stat().st_size, _digest_of(part)
    file.save()


def _read(path: Path) -> "Table":
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    return parquet.read_table(path, schema=_schema())


def _require_whole(file: ArchiveFile, path: Path) -> None:
    if not path.exists() or path.stat().st_size != file.size_bytes or _digest_of(path) != file.digest:
        raise JobArchiveError(
            f"{path} is not there, or was changed; restore it from a backup. No job is removed until then."
        )


def _write_manifest(vo: VO, day: date) -> None:
    """Write which files of a VO and day are in place, and what they have."""
    files = (
        ArchiveFile.objects.filter(vo=vo, day=day, state=ArchiveState.IN_PLACE).select_related("vo").order_by("number")
    )
    manifest = {
        "vo": vo.name,
        "day": str(day),
        "columns": [name for name, _ in COLUMNS],
        "files": [
            {
                "name": path_of(each).name,
                "jobs": each.jobs,
                "first_job_id": each.first_job_id,
                "last_job_id": each.last_job_id,
                "size_bytes": each.size_bytes,
                "sha256": each.digest,
            }
            for each in files
        ],
    }
    path = Path(settings.WMS_ARCHIVE_DIR) / vo.name / f"{day}.manifest.json"
    write_private(path, json.dumps(manifest, indent=2))


def _digest_of(path: Path) -> str:
    with path.open("rb") as content:
        return file_digest(content, "sha256").hexdigest()
