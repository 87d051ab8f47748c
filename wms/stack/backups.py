"""Backups: the database and the files that it names, each file once for all backups in a directory (ADR 103).

    DIRECTORY/files/ab/cdef…             contents of sandboxes, under their SHA-256
    DIRECTORY/20261130T031500Z/database  made by pg_dump
    DIRECTORY/20261130T031500Z/sandboxes one line for each content that this database names: SHA-256, size in bytes
    DIRECTORY/20261130T031500Z/manifest.json

A directory without ``.unfinished`` at the end of its name is a whole backup. Keys are in none.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import sleep
from typing import BinaryIO, Final
from uuid import UUID, uuid4

import msgspec
from django.core.files import File
from django.core.management import call_command
from django.db import connection, transaction
from psycopg import pq

from wms.jobs.models import Sandbox
from wms.jobs.services import sandbox_files
from wms.jobs.services.sandbox_files import NoRoomError
from wms.kernel.clock import current_time
from wms.kernel.database_version import is_newer
from wms.kernel.db import database_now, periodic_task_lock
from wms.kernel.names import listed
from wms.kernel.private_files import FILE_MODE, sync_directory, write_private
from wms.kernel.secrets import UndecipherableError, decrypt, encrypt
from wms.kernel.trusted_paths import require_trusted
from wms.operations import id_marks
from wms.operations.id_marks import STEP, Mark, mark_file
from wms.operations.models import IdMark, LastBackup
from wms.stack.binaries import PostgresClient, find_client
from wms.stack.errors import StackError
from wms.stack.servers import environment_of_server
from wms.wire.private_directories import make_private
from wms.wire.version import __version__

_FILES: Final = "files"
_UNFINISHED: Final = ".unfinished"
#: Of a backup. Nothing else in the directory is read or removed, as it may be somebody's.
_NAME: Final = re.compile(r"\d{8}T\d{6}Z")
#: Ending of a file that is not whole.
_PART: Final = ".part"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
#: The task that removes files which no row names any more; it waits while a backup copies those of a moment before.
_REMOVAL: Final = "jobs.remove_unused_sandboxes"
_CHUNK_BYTES: Final = 1024 * 1024
#: Ids left out by a restore without a mark: those of a hundred days at a million jobs a day.
_WITHOUT_MARK: Final = 100_000_000


class BackupError(StackError):
    """A backup was not made, or not restored; the text is a sentence for the operator."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a backup, a file in it."""

    made_at: datetime
    #: Of the server, and of the pg_dump, that made it.
    version: str
    pg_dump: int
    #: Of the database and all that are restored from it, and its last ids (``id_marks``).
    database: UUID
    given: Mapping[str, int]
    #: A text that only the key of the system decrypts.
    key_check: str
    dump_bytes: int
    dump_sha256: str
    sandboxes: int
    sandbox_bytes: int
    #: SHA-256 of contents that the database names, but the store does not have.
    missing: Sequence[str]


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A backup that was made."""

    path: Path
    manifest: Manifest
    #: Contents that no earlier backup in the directory has.
    new_files: int
    #: Names of older backups that were removed.
    removed: Sequence[str]


def back_up(directory: Path, *, keep: int | None = None) -> BackedUp:
    """Write a backup into a directory of backups, which is made if missing; the system may run meanwhile.

    Args:
        directory: of backups.
        keep: number of backups that stay, of which this is one; older ones are removed. None: all stay.

    Raises:
        BackupError: nothing was added that counts as a backup.
        UntrustedPathError: another account could have written the directory.
        PostgresNotFoundError: there is no pg_dump that is new enough.
    """
    pg_dump = find_client("pg_dump", at_least=_server_version())
    with _locked(directory), _no_removals():
        row, _ = IdMark.objects.get_or_create(pk=1)
        _refuse_other_database(directory, row.database)
        _remove_unfinished(directory)
        now = current_time()
        name = _name_at(now)
        if (directory / name).exists():
            raise BackupError(f"{directory / name} exists: wait a second, and try again.")
        unfinished = directory / f"{name}{_UNFINISHED}"
        make_private(unfinished)
        manifest = _dump(unfinished, pg_dump, database=row.database, now=now)
        new_files, missing = _copy_files(directory, unfinished)
        manifest = msgspec.structs.replace(manifest, missing=missing)
        write_private(unfinished / "manifest.json", msgspec.json.encode(manifest).decode())
        unfinished.rename(directory / name)
        sync_directory(directory)
        LastBackup.objects.update_or_create(pk=1, defaults={"finished_at": database_now()})
        removed = [] if keep is None else _keep_only(directory, keep)
    return BackedUp(path=directory / name, manifest=manifest, new_files=new_files, removed=removed)


def _refuse_other_database(directory: Path, database: UUID) -> None:
    """Refuse a directory with backups of another database, which ``keep`` would remove."""
    for backup in backups_in(directory)[-1:]:
        if read_manifest(backup).database != database:
            raise BackupError(f"{directory} has backups of another database: name another directory.")


def _name_at(time: datetime) -> str:
    return f"{time:%Y%m%dT%H%M%SZ}"


def _dump(unfinished: Path, pg_dump: PostgresClient, *, database: UUID, now: datetime) -> Manifest:
    """Write the database, and the list of the files that it names at the same moment; return the manifest."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        cursor.execute("SELECT pg_export_snapshot()")
        (snapshot,) = cursor.fetchone()
        number, size_bytes = _list_sandboxes(unfinished / "sandboxes")
        file = unfinished / "database"
        _run([str(pg_dump.path), "--format=custom", f"--snapshot={snapshot}", f"--file={file}"])
        given = id_marks.last_ids()
    file.chmod(FILE_MODE)
    with file.open("rb") as dump:
        digest = hashlib.file_digest(dump, "sha256").hexdigest()
        os.fsync(dump.fileno())
    return Manifest(
        made_at=now,
        version=__version__,
        pg_dump=pg_dump.version,
        database=database,
        given=given,
        key_check=encrypt(str(database)).decode(),
        dump_bytes=file.stat().st_size,
        dump_sha256=digest,
        sandboxes=number,
        sandbox_bytes=size_bytes,
        missing=(),
    )


def _list_sandboxes(file: Path) -> tuple[int, int]:
    """Write the contents that the database names; return their number and sum of sizes."""
    number = total = 0
    with _new(file) as lines:
        for digest, size_bytes in Sandbox.objects.order_by("digest").values_list("digest", "size_bytes").iterator():
            lines.write(f"{digest} {size_bytes}\n".encode())
            number, total = number + 1, total + size_bytes
        lines.flush()
        os.fsync(lines.fileno())
    return number, total


def _copy_files(directory: Path, unfinished: Path) -> tuple[int, Sequence[str]]:
    """Copy the files that the directory does not have; return their number, and which the store does not have."""
    copied, missing = 0, []
    for digest, size_bytes in _listed(unfinished):
        target = _file(directory, digest)
        if target.exists() and target.stat().st_size == size_bytes:
            continue
        try:
            with sandbox_files.open_stored(digest) as content:
                is_whole = _copy(content, target, digest=digest)
        except FileNotFoundError:
            is_whole = False
        copied += is_whole
        missing += [] if is_whole else [digest]
    return copied, missing


def _copy(content: "File[bytes]", target: Path, *, digest: str) -> bool:
    """Copy a content under its digest; return whether it has this digest, else nothing stays."""
    make_private(target.parent)
    part = target.with_name(f"{target.name}{_PART}")
    part.unlink(missing_ok=True)
    hasher = hashlib.sha256()
    with _new(part) as file:
        while chunk := content.read(_CHUNK_BYTES):
            hasher.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if hasher.hexdigest() != digest:
        part.unlink()
        return False
    part.rename(target)
    sync_directory(target.parent)
    return True


def _keep_only(directory: Path, keep: int) -> Sequence[str]:
    """Remove all but the newest backups, and the files that none of these names; return the removed ones."""
    backups = backups_in(directory)
    old, kept = backups[:-keep], backups[-keep:]
    for backup in old:
        # Renamed first: one that is half removed is no backup.
        gone = backup.rename(backup.with_name(f"{backup.name}{_UNFINISHED}"))
        shutil.rmtree(gone)
    needed = {bytes.fromhex(digest) for backup in kept for digest, _ in _listed(backup)}
    for file in (directory / _FILES).glob("??/*"):
        digest = file.parent.name + file.name.removesuffix(_PART)
        if _DIGEST.fullmatch(digest) and (file.suffix == _PART or bytes.fromhex(digest) not in needed):
            file.unlink()
    return [backup.name for backup in old]


def backups_in(directory: Path) -> Sequence[Path]:
    """Return the whole backups in a directory, oldest first."""
    return sorted(path.parent for path in directory.glob("*/manifest.json") if _NAME.fullmatch(path.parent.name))


def read_manifest(backup: Path) -> Manifest:
    """Return the manifest of a backup.

    Raises:
        BackupError: it has none that can be read.
        UntrustedPathError: another account could have written it.
    """
    file = backup / "manifest.json"
    require_trusted(file)
    try:
        return msgspec.json.decode(file.read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise BackupError(f"{backup} is not a backup that can be read ({error}).") from error


def restore(backup: Path, *, without_mark: bool, with_another_key: bool) -> Manifest:
    """Restore a backup into the empty database, and its files into the store; return its manifest.

    Everything is checked first. Files that are there stay, as they have their digest as their name.

    Args:
        backup: a directory of those in a directory of backups.
        without_mark: whether to go on without the mark of the highest ids, far beyond those of the backup.
        with_another_key: whether to go on with a key that does not decrypt what the backup has encrypted.

    Raises:
        BackupError: it was not restored; the database is still empty.
        UntrustedPathError: another account could have written the backup.
        PostgresNotFoundError: there is no pg_restore that is new enough.
    """
    manifest = read_manifest(backup)
    pg_restore = find_client("pg_restore", at_least=max(manifest.pg_dump, _server_version()))
    _refuse_tables()
    _refuse_backup(backup, manifest, with_another_key=with_another_key)
    # Of this machine, where the server will start.
    path = mark_file(manifest.database)
    if not path.exists() and not without_mark:
        raise BackupError(
            f"There is no mark of the highest ids at {path}, so ids that were given after the backup would be given "
            "again: copy it from the lost machine, or go on far beyond them by --without-mark."
        )
    for digest, size_bytes in _listed(backup):
        if digest not in manifest.missing:
            _store_file(backup.parent, digest, size_bytes)
    # Before the database: without a mark, one that was restored would be taken for a new one.
    if not path.exists():
        given = {name: value + _WITHOUT_MARK - STEP for name, value in manifest.given.items()}
        make_private(path.parent)
        unknown = Mark(file=uuid4(), version=uuid4(), timeline=0, given=given)
        write_private(path, msgspec.json.encode(unknown).decode())
    whole = ["--exit-on-error", "--single-transaction", "--no-owner", f"--dbname={_database()}"]
    _run([str(pg_restore.path), *whole, str(backup / "database")])
    connection.close()  # its prepared statements are of the empty database
    # It was set back, even if the mark was not written since the backup.
    IdMark.objects.update(versions={})
    call_command("migrate", "--keep-id-mark", "--no-input", verbosity=0)
    return manifest


def _refuse_backup(backup: Path, manifest: Manifest, *, with_another_key: bool) -> None:
    """Refuse a backup that is damaged, of a newer server, or of another key."""
    if is_newer(manifest.version):
        raise BackupError(
            f"The backup is of version {manifest.version}, and this is {__version__}: install that version."
        )
    try:
        is_ours = decrypt(manifest.key_check.encode()) == str(manifest.database)
    except UndecipherableError:
        is_ours = False
    if not is_ours and not with_another_key:
        raise BackupError(
            "The key of the backup is neither WMS_SECRET_KEY nor one of WMS_SECRET_KEY_FALLBACKS, so its stored "
            "credentials could not be read: set it, or go on without them by --with-another-key."
        )
    dump = backup / "database"
    require_trusted(dump)
    with dump.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != manifest.dump_sha256:
            raise BackupError(f"{dump} is damaged: take another backup.")


def _store_file(directory: Path, digest: str, size_bytes: int) -> None:
    path = _file(directory, digest)
    require_trusted(path)
    try:
        with path.open("rb") as content:
            is_whole = hashlib.file_digest(content, "sha256").hexdigest() == digest
            if is_whole:
                sandbox_files.store(content, digest=digest, size_bytes=size_bytes)
    except FileNotFoundError:
        is_whole = False
    except NoRoomError as error:
        raise BackupError("The directory of sandboxes has no room for the files of the backup.") from error
    if not is_whole:
        raise BackupError(f"{path} is gone or damaged, and nothing was restored: take another backup.")


def _refuse_tables() -> None:
    if tables := connection.introspection.table_names():
        raise BackupError(
            f"The database {_database()} has tables ({listed(sorted(tables)[:3])}, …), and nothing was changed: name "
            "an empty one in WMS_DATABASE_URL."
        )


# ---- files -----------------------------------------------------------------------------------------------------------


def _file(directory: Path, digest: str) -> Path:
    return directory / _FILES / digest[:2] / digest[2:]


def _new(file: Path) -> BinaryIO:
    """Open a new file, for its owner alone, to write into."""
    return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "wb")


def _listed(backup: Path) -> Iterator[tuple[str, int]]:
    """Yield the contents that the database of a backup names, with their sizes."""
    with (backup / "sandboxes").open(encoding="ascii") as lines:
        for line in lines:
            digest, _, size_bytes = line.partition(" ")
            yield digest, int(size_bytes)


def _remove_unfinished(directory: Path) -> None:
    for path in directory.glob(f"*{_UNFINISHED}"):
        if _NAME.fullmatch(path.name.removesuffix(_UNFINISHED)):
            shutil.rmtree(path)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Make the directory if missing, and let no other backup work in it."""
    require_trusted(directory)
    try:
        make_private(directory)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
    except OSError as error:
        raise BackupError(f"{directory} cannot be written ({error.strerror}): name another directory.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"Another backup is being written into {directory}: wait for its end.") from error
        yield
    finally:
        os.close(lock)


@contextmanager
def _no_removals() -> Iterator[None]:
    """Let no task remove files of sandboxes."""
    while True:
        with periodic_task_lock(_REMOVAL) as is_alone:
            if is_alone:
                yield
                return
        sleep(0.2)


# ---- programs of PostgreSQL ------------------------------------------------------------------------------------------


def _server_version() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::integer / 10000")
        (version,) = cursor.fetchone()
    return int(version)


def _database() -> str:
    return str(connection.settings_dict["NAME"])


def _run(command: Sequence[str]) -> None:
    """Run a program of PostgreSQL on the database of this process.

    Raises:
        BackupError: it failed.
    """
    done = subprocess.run(  # noqa: S603 - a program of PostgreSQL
        command, env=_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        reason = " ".join((done.stderr.strip() or f"status {done.returncode}").split())
        raise BackupError(f"{Path(command[0]).name} failed, and nothing was changed: {reason[:500]}")


def _environment() -> dict[str, str]:
    """Return variables of libpq with the address and password of the database, which the list of processes hides."""
    variable = {
        option.keyword.decode(): option.envvar.decode() for option in pq.Conninfo.get_defaults() if option.envvar
    }
    parameters = connection.get_connection_params()
    named = {variable[name]: str(value) for name, value in parameters.items() if name in variable and value is not None}
    return environment_of_server() | named
