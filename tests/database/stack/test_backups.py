"""Backups: what is restored elsewhere is what was there, ids go on beyond all that were given, damage is refused."""

import copy
import hashlib
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO, StringIO
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from django.conf import settings as ours
from django.core.management import CommandError, call_command
from django.db import connection
from pytest_django import Settings

from matching.queries.invariants import violations
from tests.factories import make_job
from tests.tables import checksums
from wms.accounts.models import VO
from wms.jobs.models import Job, Sandbox
from wms.jobs.services import sandbox_files
from wms.kernel.db import LockKey, database_now, periodic_task_lock
from wms.kernel.trusted_paths import UntrustedPathError
from wms.operations.id_marks import STEP, keep
from wms.operations.models import IdMark
from wms.stack import backups
from wms.stack.backups import BackupError, back_up, backups_in, read_manifest, restore

pytestmark = pytest.mark.django_db(transaction=True)

#: Tables that a restore itself writes, or an upgrade.
WRITTEN = (
    "operations_idmark",
    "operations_lastbackup",
    "accounts_vo",
    "django_migrations",
    "taskqueues_taskqueuechange",
)


@pytest.fixture(autouse=True)
def store(settings: Settings, tmp_path: Path) -> Path:
    settings.WMS_ID_MARK_DIR = str(tmp_path / "marks")
    place = tmp_path / "sandboxes"
    settings.STORAGES = copy.deepcopy(settings.STORAGES)
    settings.STORAGES["sandboxes"]["OPTIONS"]["location"] = str(place)
    return place


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def sandbox(content: bytes) -> Sandbox:
    digest = hashlib.sha256(content).hexdigest()
    sandbox_files.store(BytesIO(content), digest=digest, size_bytes=len(content))
    return Sandbox.objects.create(
        digest=digest, size_bytes=len(content), is_archive=False, created_at=database_now(), check_use_at=database_now()
    )


def read(digest: str) -> bytes:
    with sandbox_files.open_stored(digest) as content:
        return bytes(content.read())


@contextmanager
def another_database() -> Iterator[None]:
    """Let this process work with a new database."""
    name = f"{connection.settings_dict['NAME']}_other"
    before = connection.settings_dict["NAME"]
    with psycopg.connect(psycopg.conninfo.make_conninfo(connection.connection.info.dsn, dbname="postgres")) as server:
        server.autocommit = True
        server.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
        connection.close()
        connection.settings_dict["NAME"] = name
        try:
            yield
        finally:
            connection.close()
            connection.settings_dict["NAME"] = before
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def restored(backup: Path, *, without_mark: bool = False, with_another_key: bool = False) -> None:
    restore(backup, without_mark=without_mark, with_another_key=with_another_key)


def test_a_restored_system_is_the_one_that_was_there(directory: Path, store: Path) -> None:
    first, second = sandbox(b"one"), sandbox(b"two" * 1000)
    job = make_job()
    keep()
    made = back_up(directory)
    assert (made.new_files, made.manifest.sandboxes, made.manifest.sandbox_bytes) == (2, 2, 3003)
    was = checksums(without=WRITTEN)

    lost = make_job().pk
    keep()
    make_job()
    Job.objects.all().delete()
    for file in store.rglob("*"):
        if file.is_file():
            file.unlink()
    with another_database():
        restored(made.path)
        assert checksums(without=WRITTEN) == was
        assert list(violations()) == []
        assert read(first.digest) == b"one"
        assert read(second.digest) == b"two" * 1000
        assert list(Job.objects.values_list("pk", flat=True)) == [job.pk]
        assert make_job().pk == lost + STEP + 1
        assert VO.objects.get(pk=job.vo_id).why_paused(database_now())


def test_ids_given_after_the_last_writing_of_the_mark_are_not_given_again(directory: Path) -> None:
    make_job()
    keep()
    path = back_up(directory).path
    lost = make_job()
    with another_database():
        restored(path)
        assert make_job().pk > lost.pk
        assert VO.objects.order_by("pk")[0].why_paused(database_now())


def test_nothing_of_a_backup_is_for_others_and_no_key_is_in_it(directory: Path) -> None:
    sandbox(b"content")
    back_up(directory)
    paths = [directory, *directory.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}
    key = ours.SECRET_KEY.encode()
    assert not [path for path in paths if path.is_file() and key in path.read_bytes()]


def test_a_second_backup_adds_new_files_only_and_removes_what_no_kept_one_needs(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = iter(["20261201T000000Z", "20261202T000000Z", "20261203T000000Z"])
    monkeypatch.setattr(backups, "_name_at", lambda _time: next(names))
    keep()
    gone = sandbox(b"gone")
    assert back_up(directory).new_files == 1
    stays = sandbox(b"stays")
    assert back_up(directory).new_files == 1
    Sandbox.objects.filter(pk=gone.pk).delete()
    made = back_up(directory, keep=2)
    assert (made.new_files, made.removed) == (0, ["20261201T000000Z"])
    assert [backup.name for backup in backups_in(directory)] == ["20261202T000000Z", "20261203T000000Z"]
    files = {path.parent.name + path.name for path in (directory / "files").glob("*/*")}
    assert files == {gone.digest, stays.digest}  # the second one names both
    with another_database():
        restored(directory / "20261203T000000Z")
        assert Sandbox.objects.get().digest == stays.digest


def change_key(settings: Settings) -> None:
    settings.SECRET_KEY = "another-" * 8


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path, _: (path / "database").write_bytes(b"PGDMP"), "is damaged"),
        (lambda path, _: (path / "manifest.json").write_text("{"), "not a backup that can be read"),
        (lambda path, _: next((path.parent / "files").glob("*/*")).write_bytes(b"other"), "gone or damaged"),
        (lambda path, _: next((path.parent / "files").glob("*/*")).unlink(), "gone or damaged"),
        (lambda path, _: alter(path, '"version":"', '"version":"9'), "is of version 9"),
        (lambda _, settings: change_key(settings), "--with-another-key"),
        (lambda _, settings: setattr(settings, "WMS_ID_MARK_DIR", "/nowhere"), "--without-mark"),
    ],
    ids=["dump", "manifest", "file", "lost file", "newer", "key", "mark"],
)
def test_what_cannot_be_restored_is_refused_and_the_database_stays_empty(
    directory: Path, settings: Settings, damage: Callable[[Path, Settings], object], words: str
) -> None:
    sandbox(b"content")
    keep()
    path = back_up(directory).path
    damage(path, settings)
    with another_database():
        with pytest.raises(BackupError, match=words):
            restored(path)
        assert connection.introspection.table_names() == []


def alter(backup: Path, old: str, new: str) -> None:
    manifest = backup / "manifest.json"
    manifest.write_text(manifest.read_text().replace(old, new, 1))


def test_a_restore_without_mark_and_key_goes_on_far_beyond(directory: Path, settings: Settings, tmp_path: Path) -> None:
    job = make_job()
    keep()
    path = back_up(directory).path
    change_key(settings)
    settings.WMS_ID_MARK_DIR = str(tmp_path / "none")
    with another_database():
        restored(path, without_mark=True, with_another_key=True)
        assert make_job().pk == job.pk + 100_000_001
        assert not keep().was_set_back


def test_a_database_with_tables_is_left_as_it_is(directory: Path) -> None:
    job = make_job()
    path = back_up(directory).path
    was = checksums(without=WRITTEN)
    with pytest.raises(BackupError, match="has tables"):
        restored(path, without_mark=True)
    assert checksums(without=WRITTEN) == was
    assert Job.objects.get() == job


def test_a_backup_that_was_interrupted_is_none(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox(b"content")

    def killed(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(backups, "_copy_files", killed)
        with pytest.raises(KeyboardInterrupt):
            back_up(directory)
    assert backups_in(directory) == []
    with pytest.raises(CommandError, match="no whole backup"):
        call_command("restore", str(directory))
    made = back_up(directory)
    assert {path.name for path in directory.iterdir() if path.is_dir()} == {"files", made.path.name}


def test_what_is_not_a_backup_of_this_database_stays(directory: Path) -> None:
    kept = [directory / name for name in ("site", "upload.unfinished")]
    for path in kept:
        path.mkdir(parents=True)
        (path / "manifest.json").write_text("{}")
    (directory / "files" / "ab").mkdir(parents=True)
    (directory / "files" / "ab" / "notes").write_text("mine")
    back_up(directory, keep=1)
    assert [path for path in kept if not (path / "manifest.json").exists()] == []
    assert (directory / "files" / "ab" / "notes").exists()

    IdMark.objects.update(database=uuid4())
    with pytest.raises(BackupError, match="of another database"):
        back_up(directory, keep=1)
    assert len(backups_in(directory)) == 1


def test_what_others_could_write_is_neither_written_nor_restored(directory: Path) -> None:
    path = back_up(directory).path
    (path / "manifest.json").chmod(0o666)
    with pytest.raises(UntrustedPathError):
        restored(path)
    directory.chmod(0o777)
    with pytest.raises(UntrustedPathError):
        back_up(directory)


def test_files_that_the_store_has_lost_are_named(directory: Path, store: Path) -> None:
    lost, kept = sandbox(b"lost"), sandbox(b"kept")
    (store / lost.digest[:2] / lost.digest[2:]).unlink()
    (store / kept.digest[:2] / kept.digest[2:]).write_bytes(b"KEPT")
    with pytest.raises(CommandError, match=r"2 files that the database names cannot be\s+read"):
        call_command("backup", str(directory), stdout=StringIO())
    (path,) = backups_in(directory)
    assert sorted(read_manifest(path).missing) == sorted([lost.digest, kept.digest])
    with another_database():
        restored(path, without_mark=True)
        assert Sandbox.objects.count() == 2


def test_no_file_is_removed_while_a_backup_is_written(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def look(*_arguments: object) -> tuple[int, list[str]]:
        name = connection.settings_dict["NAME"]
        with psycopg.connect(psycopg.conninfo.make_conninfo(connection.connection.info.dsn, dbname=name)) as other:
            held.extend(other.execute("SELECT classid::int FROM pg_locks WHERE locktype = 'advisory'").fetchall())
        return 0, []

    monkeypatch.setattr(backups, "_copy_files", look)
    back_up(directory)
    assert (int(LockKey.PERIODIC_TASK),) in held
    with periodic_task_lock("jobs.remove_unused_sandboxes") as is_free:
        assert is_free


def test_two_backups_do_not_write_into_one_directory(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*_arguments: object) -> tuple[int, list[str]]:
        with pytest.raises(BackupError, match="Another backup"):
            back_up(directory)
        return 0, []

    monkeypatch.setattr(backups, "_copy_files", again)
    back_up(directory)


def test_the_commands_say_what_they_have_done(directory: Path) -> None:
    sandbox(b"content")
    make_job()
    keep()
    said = StringIO()
    call_command("backup", str(directory), stdout=said)
    assert "1 file of sandboxes (7 bytes), of which 1 were not in" in said.getvalue()
    with another_database():
        call_command("restore", str(directory), stdout=said, stderr=said)
        assert "is restored: the database, and 1 file of sandboxes" in said.getvalue()
        assert IdMark.objects.exists()
