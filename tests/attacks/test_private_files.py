"""Other accounts of the machine cannot read the data directory and the store, even if an earlier version let them."""

import io
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.utils import timezone
from pytest_django import Settings

from tests.factories import make_user
from wms.jobs.services import sandbox_files, sandboxes
from wms.kernel.trusted_paths import UntrustedPathError
from wms.stack.directory import claimed


@pytest.fixture(autouse=True)
def wide_umask() -> Iterator[None]:
    """Set a umask under which files are open to everybody unless their mode is set."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def store(settings: Settings, tmp_path: Path) -> Path:
    directory = tmp_path / "sandboxes"
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": str(directory)}}
    settings.STORAGES = {**settings.STORAGES, "sandboxes": backend}
    return directory


def open_to_others(top: Path) -> list[Path]:
    paths = [top, *top.rglob("*")]
    return [path for path in paths if stat.S_IMODE(path.stat(follow_symlinks=False).st_mode) & 0o077]


def opened(top: Path) -> Path:
    """Give the tree the permissions of an earlier version."""
    for path in (top, *top.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return top


@pytest.mark.django_db
def test_stored_files_are_private_whatever_the_umask(store: Path) -> None:
    sandboxes.upload(io.BytesIO(b"secret"), file_name="run.sh", owner=make_user(), now=timezone.now())
    assert [path for path in store.rglob("*") if path.is_file()]
    assert open_to_others(store) == []


def test_temporary_upload_files_are_private() -> None:
    with TemporaryUploadedFile("run.sh", "text/plain", 1, "utf-8") as file:
        assert open_to_others(Path(file.temporary_file_path())) == []


@pytest.mark.django_db
def test_an_existing_store_is_made_private_at_start_and_logged_once(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sandboxes.upload(io.BytesIO(b"secret"), file_name="run.sh", owner=make_user(), now=timezone.now())
    outside = store.with_name("outside")
    outside.write_text("not ours")
    (store / "link").symlink_to(outside)
    opened(store)
    for _ in range(2):
        sandbox_files.close_store()
    (store / "link").unlink()
    assert open_to_others(store) == []
    assert stat.S_IMODE(outside.stat().st_mode) == 0o644
    assert [record.message for record in caplog.records] == ["sandboxes.closed_to_other_accounts"]


def test_a_store_that_other_accounts_write_to_is_refused(store: Path) -> None:
    store.mkdir()
    store.chmod(0o777)
    with pytest.raises(UntrustedPathError, match="can be written by every account"):
        sandbox_files.close_store()


def test_every_web_process_makes_the_store_private(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "ab").mkdir(parents=True)
    (store / "ab" / "cdef").write_text("secret")
    opened(store)
    environment = {**os.environ, "WMS_EMBEDDED": "1", "WMS_SANDBOX_DIR": str(store)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "import wms.wsgi"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert open_to_others(store) == []
    assert done.stderr.count("sandboxes.closed_to_other_accounts") == 1


def test_an_existing_data_directory_is_made_private(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with claimed(data) as directory:
        directory.secret_key()
        directory.write_environment({"WMS_SECRET_KEY": "x"})
        for part in ("beat", "postgres", "run"):
            (directory.part(part) / "file").write_text("x")
    opened(data)
    with claimed(data) as directory:
        closed = directory.close_to_others()
        assert data in closed
        assert data / "secret_key" in closed
        assert directory.close_to_others() == []
    # What is in PostgreSQL's own directory is behind its mode.
    assert open_to_others(data) == [data / "postgres" / "file"]
