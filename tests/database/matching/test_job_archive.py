"""Removed jobs are in the archive first: complete, private, and readable by others' programs."""

import json
import stat
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from matching.services import job_archive, retention
from tests.database.matching.removing import OLD, accounting, broken, ended, permit, referring, remove
from tests.factories import NOW, make_group, make_vo
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import ArchiveFile, ArchiveState, Job, JobHistory
from wms.jobs.services import counting

parquet = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.django_db
__all__ = ["accounting"]


@pytest.fixture(autouse=True)
def directory(settings: Settings, tmp_path: Path) -> Path:
    settings.WMS_ARCHIVE_DIR = str(tmp_path / "archive")
    return tmp_path / "archive"


def in_files(directory: Path) -> list[int]:
    """Return the ids in all files as who reads the directory finds them."""
    files = sorted(directory.glob("*/*.parquet"))
    return sorted(row for file in files for row in parquet.read_table(file, columns=["id"])["id"].to_pylist())


def test_a_removed_job_is_in_the_file_of_its_vo_and_day_with_all_that_was_known(directory: Path) -> None:
    job = ended(JobStatus.FAILED, group=make_group(vo=make_vo(name="lhcb")), arguments="-x 1", job_name="sim")
    history = list(JobHistory.objects.filter(job=job).values_list("status", flat=True))
    description = job.description
    permit()
    assert remove() == 1
    file = directory / "lhcb" / "2026-06-01-00001.parquet"
    (row,) = parquet.read_table(file).to_pylist()
    assert (row["id"], row["vo"], row["status"], row["ended_at"]) == (job.pk, "lhcb", "Failed", OLD)
    assert [line["status"] for line in json.loads(row["history"])] == history
    assert {**json.loads(row["description"]), "job_name": row["job_name"]} == description
    assert json.loads(row["tails"]) == [{"attempt": 0, "std_output": "last line", "std_error": None}]
    for column in ("leases", "usage_samples", "input_sandboxes", "commands"):
        assert len(json.loads(row[column])) == 1, column
    manifest = json.loads((directory / "lhcb" / "2026-06-01.manifest.json").read_text())
    assert manifest["files"] == [
        {
            "name": file.name,
            "jobs": 1,
            "first_job_id": job.pk,
            "last_job_id": job.pk,
            "size_bytes": file.stat().st_size,
            "sha256": ArchiveFile.objects.get().digest,
        }
    ]
    assert not Job.objects.exists()


def test_nobody_else_can_read_it(directory: Path) -> None:
    ended()
    permit()
    remove()
    paths = [directory, *directory.rglob("*")]
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_dir()} == {0o700}
    assert {stat.S_IMODE(path.stat().st_mode) for path in paths if path.is_file()} == {0o600}


def test_each_vo_has_files_of_its_own(directory: Path) -> None:
    jobs = [ended(group=make_group(vo=make_vo(name=name))) for name in ("atlas", "cms")]
    permit()
    assert remove() == 2
    for name, job in zip(("atlas", "cms"), jobs, strict=True):
        (file,) = (directory / name).glob("*.parquet")
        assert parquet.read_table(file)["id"].to_pylist() == [job.pk]


def test_the_files_of_a_day_become_one_when_it_is_over(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = make_group()
    jobs = [ended(group=group, at=OLD - timedelta(hours=hour)) for hour in range(3)]
    permit()
    monkeypatch.setattr(retention, "JOBS_TOGETHER", 1)
    assert remove() == 3
    ids = sorted(job.pk for job in jobs)
    assert len(list(directory.glob("*/*.parquet"))) == 3
    assert in_files(directory) == ids
    remove(NOW + timedelta(days=1))
    assert len(list(directory.glob("*/*.parquet"))) == 1
    assert in_files(directory) == ids
    file = ArchiveFile.objects.get()
    assert (file.jobs, file.first_job_id, file.last_job_id) == (3, ids[0], ids[-1])
    assert all(job_archive.archived(pk) for pk in ids)
    assert remove(NOW + timedelta(days=2)) == 0
    assert ArchiveFile.objects.get() == file


def archived(*arguments: str) -> str:
    out = StringIO()
    call_command("archived", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_one_job(settings: Settings) -> None:
    job, other = ended(), ended(at=NOW)
    permit()
    remove()
    found = json.loads(archived(str(job.pk)))
    assert (found["id"], found["owner"], len(found["history"])) == (job.pk, job.owner.username, 2)
    for unknown in (other.pk, 10**9):
        with pytest.raises(CommandError, match="is not in the archive"):
            archived(str(unknown))
    settings.WMS_ARCHIVE_DIR = ""
    with pytest.raises(CommandError, match="There is no archive"):
        archived(str(job.pk))


def _cannot_be_written(directory: Path, _: pytest.MonkeyPatch) -> None:
    directory.write_text("no directory")


def _reads_back_otherwise(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = job_archive._table

    def changing(rows: list[tuple[Any, ...]]) -> object:
        made.append(rows)
        return table(rows if len(made) == 1 else [(*rows[0][:-1], "[]")])

    made: list[object] = []
    monkeypatch.setattr(job_archive, "_table", changing)


def _without_pyarrow(_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_archive, "find_spec", lambda _: None)


def _unknown_file(directory: Path, _: pytest.MonkeyPatch) -> None:
    vo = Job.objects.get().vo.name
    (directory / vo).mkdir(parents=True, mode=0o700)
    (directory / vo / "2026-06-01-00001.parquet").write_text("of another database")


@pytest.mark.parametrize("damage", [_cannot_be_written, _reads_back_otherwise, _without_pyarrow, _unknown_file])
def test_no_job_is_removed_that_cannot_be_archived(
    damage: object, directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job = ended()
    permit()
    damage(directory, monkeypatch)  # type: ignore[operator]
    assert remove() == 0
    assert [record.message for record in caplog.records if record.name == retention.__name__] == ["archive.failed"]
    assert (list(Job.objects.all()), ArchiveFile.objects.count()) == ([job], 0)
    assert JobHistory.objects.filter(job=job).count() == 2


def test_nothing_more_is_removed_when_a_new_file_was_changed(directory: Path) -> None:
    ended()
    permit()
    counting.add_changes()
    assert retention.remove_ended(now=NOW) == 1
    file = ArchiveFile.objects.get()
    path = job_archive.path_of(file)
    path.write_bytes(path.read_bytes() + b"x")
    ArchiveFile.objects.update(state=ArchiveState.WRITTEN)
    stays = ended()
    assert remove() == 0
    assert list(Job.objects.all()) == [stays]
    assert directory.exists()


def test_after_archiving_nothing_dangles() -> None:
    for _ in range(3):
        ended()
    permit()
    assert remove() == 3
    counting.add_changes()
    assert referring() == {}
    assert broken() == []
