"""The output spool is private to an account and a server, bounded, and replaces nothing."""

import os
import time
from pathlib import Path

import pytest

from pilots.agent.data import output_spool


def _file(directory: Path, name: str, *, megabytes: int, age_s: float = 0.0) -> Path:
    path = directory / name
    path.touch()
    os.truncate(path, megabytes * 1024**2)
    os.utime(path, (time.time() - age_s, time.time() - age_s))
    return path


def _keep(file: Path, *, name: str = "job-7", server: str = "https://wms.example.org") -> Path | None:
    work = file.parent / "work"
    where = output_spool.keep(
        file, spool=output_spool.directory_of(work, server=server), work_directory=work, name=name
    )  # fmt: skip
    return None if where is None else Path(where.partition(":")[2])


def test_old_or_excess_kept_output_is_removed(tmp_path: Path) -> None:
    first = _keep(_file(tmp_path, "first", megabytes=1), name="old")
    assert first is not None
    os.utime(first, (0, time.time() - 8 * 86400))
    spool = first.parent
    (spool / "directory").mkdir()
    os.utime(spool / "directory", (0, 0))
    for name, megabytes, age_s in [("big", 150, 3600), ("small", 40, 60)]:
        _file(spool, name, megabytes=megabytes, age_s=age_s)

    assert _keep(_file(tmp_path, "new", megabytes=30)) == spool / "job-7"

    assert sorted(path.name for path in spool.iterdir()) == ["directory", "job-7", "small"]
    assert _keep(_file(tmp_path, "huge", megabytes=201), name="job-8") is None
    assert sorted(path.name for path in spool.iterdir()) == ["directory", "job-7", "small"]


def test_output_of_other_servers_and_earlier_attempts_is_not_replaced(tmp_path: Path) -> None:
    kept = []
    for content, server in [("a", "https://a.org"), ("b", "https://b.org"), ("c", "https://a.org/")]:
        (tmp_path / "packed").write_text(content)
        kept.append(_keep(tmp_path / "packed", server=server))

    assert [path.read_text() for path in kept if path is not None] == ["a", "b", "c"]
    directories = {path.parent for path in kept if path is not None}
    assert len(directories) == 2
    assert all(path.name.startswith(f"kept-{os.getuid()}-") for path in directories)
    assert {path.stat().st_mode & 0o777 for path in directories} == {0o700}


@pytest.mark.parametrize("is_there", [True, False])
def test_a_spool_that_cannot_be_beside_the_work_directory_is_where_files_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    lasting, work = tmp_path / "var", tmp_path / "slot"
    work.mkdir()
    if is_there:
        lasting.mkdir()
    monkeypatch.setattr(output_spool, "_LASTING", lasting)
    spool = tmp_path / "absent/kept-1-abc"
    where = output_spool.keep(_file(tmp_path, "new", megabytes=1), spool=spool, work_directory=work, name="job-7")
    assert where is not None
    expected = f"{lasting}/kept-1-abc/job-7" if is_there else f"{work}/kept-1-abc/job-7 until the slot ends"
    assert where.partition(":")[2] == expected


@pytest.mark.parametrize("lying_in_wait", ["link", "file", "open directory"])
def test_a_spool_that_somebody_else_could_read_or_write_is_not_used(tmp_path: Path, lying_in_wait: str) -> None:
    spool = output_spool.directory_of(tmp_path / "work", server="https://wms.example.org")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    if lying_in_wait == "link":
        spool.symlink_to("elsewhere")
    elif lying_in_wait == "file":
        spool.touch()
    else:
        spool.mkdir()
        spool.chmod(0o777)

    places = [_keep(_file(tmp_path, "new", megabytes=1)) for _ in range(2)]

    assert places[0] is not None
    assert places[0].parent.parent == tmp_path
    assert places[0].parent.name.startswith(f"{spool.name}-")
    assert places[0].parent.stat().st_mode & 0o777 == 0o700
    assert places[1] == places[0].with_name("2-job-7")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert spool.is_file() or list(spool.iterdir()) == []


def test_a_link_at_the_name_of_an_archive_is_not_followed(tmp_path: Path) -> None:
    spool = output_spool.directory_of(tmp_path / "work", server="https://wms.example.org")
    spool.mkdir(mode=0o700)
    (spool / "job-7").symlink_to(tmp_path / "victim")

    assert _keep(_file(tmp_path, "new", megabytes=1)) == spool / "2-job-7"
    assert not (tmp_path / "victim").exists()
