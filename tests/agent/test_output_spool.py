"""Output that cannot be delivered stays on the node, and the owner is notified."""

import os
import tarfile
import time
from pathlib import Path

import pytest

from pilots.agent.data import output_spool
from tests.agent.conftest import StartAgent, kept_archive
from tests.agent.scripted import ScriptedServer
from tests.agent.test_data import job_data


def test_refused_output_is_kept_and_its_location_reported(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'echo worth a lot'")
    refusal = (413, {"code": "sandbox_too_large", "detail": "A sandbox may have 1 byte."})
    server.script("/sandboxes/", refusal, refusal)

    agent = start()

    assert agent.wait() == 0
    assert server.lease.finished is not None
    place = kept_archive(server, tmp_path)
    assert server.lease.finished["minor_status"].endswith(f"; it is kept at {os.uname().nodename}:{place}")
    with tarfile.open(place) as archive:
        content = archive.extractfile("std.out")
        assert content is not None
        assert content.read() == b"worth a lot\n"
    assert place.parent.stat().st_mode & 0o777 == 0o700
    assert list(agent.work.iterdir()) == []


@pytest.mark.parametrize("refused", [False, True])
def test_oversized_output_is_kept_on_the_node_and_its_ends_stored(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, refused: bool
) -> None:
    server.add_job("/bin/sh", "-c 'head -c 20000 /dev/urandom > big; echo out'", output_sandbox=["big"])
    if refused:
        server.script("/sandboxes/", (400, {"code": "unsafe_archive", "detail": "It is not liked."}))
    else:
        server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    over = "output sandbox over the limit of 8000 bytes, packed"
    trouble = "the output was refused (It is not liked.)" if refused else over
    sentence = f"{trouble}; only the ends of standard output and error were"
    assert minor.startswith(f"Execution complete; {sentence} stored; it is kept at ")
    assert server.lease.files() == {"std.err": "", "std.out": "out\n"}
    with tarfile.open(kept_archive(server, tmp_path)) as archive:
        assert {member.name: member.size for member in archive} == {"big": 20000, "std.err": 0, "std.out": 4}


def test_output_that_cannot_be_kept_is_reported_as_lost(server: ScriptedServer, start: StartAgent) -> None:
    script = "head -c 20000 /dev/urandom > big; truncate -s 300M bigger; echo out"
    server.add_job("/bin/sh", f"-c '{script}'", output_sandbox=["big", "bigger"])
    server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == (
        "Execution complete; output sandbox over the limit of 8000 bytes, packed; "
        "only the ends of standard output and error were stored, the rest is lost"
    )


def test_a_long_reason_leaves_room_for_the_place_where_the_output_is(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    lfn = f"/lhcb/user/a/alice/{'long' * 30}/missing.dst"
    place = {"storage_element": "CERN-DST", "url": f"file://{tmp_path}/se", "path": "/lhcb/user/a/alice/1"}
    server.add_job(
        "/bin/sh", "-c 'head -c 20000 /dev/urandom > big'", output_sandbox=["big"], output_data=[f"LFN:{lfn}"],
        job_data=job_data(output=place),
    )  # fmt: skip
    server.configuration["sandbox_max_bytes"] = 8000

    assert start().wait() == 0

    assert server.lease.finished is not None
    minor = server.lease.finished["minor_status"]
    assert minor.startswith("Output data could not be st")
    assert minor.endswith(f"; it is kept at {os.uname().nodename}:{kept_archive(server, tmp_path)}")
    assert len(minor) <= 255


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (["here.txt", "*.log"], "output sandbox: not found: *.log"),
        (["absent", "here.txt", "sub/*"], "output sandbox: not found: absent, sub/*"),
        ([f"file{n}" for n in range(9)], "output sandbox: not found: file0, file1, file2 and 6 more"),
        (["x" * 200], f"output sandbox: not found: {'x' * 40}…"),
    ],
)
@pytest.mark.parametrize("exit_code", [0, 3])
def test_missing_files_of_the_output_sandbox_are_named(
    server: ScriptedServer, start: StartAgent, wanted: list[str], said: str, exit_code: int
) -> None:
    server.add_job("/bin/sh", f"-c 'echo x > here.txt; exit {exit_code}'", output_sandbox=wanted)

    assert start().wait() == 0

    ended = "Exited with code 3" if exit_code else "Execution complete"
    assert server.lease.finished is not None
    assert server.lease.finished["minor_status"] == f"{ended}; {said}"
    assert ("here.txt" in server.lease.files()) == ("here.txt" in wanted)


def test_an_upload_is_tried_again_before_anything_is_kept(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.add_job("/bin/sh", "-c 'echo out'")
    server.script("/sandboxes/", 503, 500, "drop the connection instead of answering")

    assert start().wait() == 0

    assert server.lease.files()["std.out"] == "out\n"
    assert not list(tmp_path.glob("kept*"))


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


@pytest.mark.parametrize("path", ["input", "output"])
def test_heartbeats_continue_during_sandbox_transfers(server: ScriptedServer, start: StartAgent, path: str) -> None:
    sandbox = server.add_sandbox(b"data", file_name="data")
    server.add_job("/bin/sh", "-c 'echo done'", input_sandboxes=[sandbox])
    slow = "wait so many seconds: 1.5"
    server.script(f"{sandbox['sandbox'][7:]}/" if path == "input" else "/sandboxes/", slow)

    assert start().wait() == 0

    moving = next(
        seen for seen in server.seen
        if seen.path.endswith("/sandboxes/" if path == "output" else f"{sandbox['sandbox'][7:]}/")
    )  # fmt: skip
    during = [seen for seen in server.requests_to("/heartbeat/") if moving.at <= seen.at <= moving.at + 1.5]
    assert len(during) >= 3
    if path == "output":
        assert during[-1].body["wall_s"] >= 0
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


@pytest.mark.parametrize("path", ["input", "output"])
def test_a_kill_command_is_executed_during_sandbox_transfers(
    server: ScriptedServer, start: StartAgent, path: str
) -> None:
    sandbox = server.add_sandbox(b"data", file_name="data")
    server.add_job("/bin/sh", "-c 'echo done'", input_sandboxes=[sandbox])
    name = f"{sandbox['sandbox'][7:]}/" if path == "input" else "/sandboxes/"
    server.script(name, *[503] * 100)
    agent = start()
    server.wait_until(lambda: server.requests_to(name) and server.lease.heartbeats)

    server.order("kill", id=3)

    assert agent.wait() == 0
    assert 3 in server.lease.acknowledged
