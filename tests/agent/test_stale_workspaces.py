"""Files of a killed pilot: the next pilot on the node removes them, unless another process still uses them."""

import fcntl
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from pilots.agent.job import stale_workspaces
from pilots.agent.job.stale_workspaces import WorkspaceLock
from tests.agent.conftest import StartAgent
from tests.agent.running import RunningAgent, marker, processes_with
from tests.agent.scripted import ScriptedServer


def sweep(directory: Path, *, stopped: Callable[[], object] = lambda: None) -> None:
    stale_workspaces.remove_all(directory, accounts=(), stopped=stopped)


def left_behind(below: Path, name: str = "wms-job-7-0f1e", *, node: str = f"host:{socket.gethostname()}") -> Path:
    """Make the directory of a job and its lock file, which no process locks."""
    directory = below / name
    (directory / "job" / "locked").mkdir(parents=True)
    (directory / "job" / "locked" / "output").write_text("half")
    (directory / "job" / "locked").chmod(0o500)
    stale_workspaces.file_of(directory).write_text(node)
    return directory


def test_a_later_pilot_removes_files_of_a_killed_one(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    killed = start()
    server.wait_until(lambda: server.leases and server.lease.statuses == ["Running"])
    server.poll(lambda: processes_with(mark))
    killed.stop(signal.SIGKILL)
    killed.process.wait()
    server.poll(lambda: not processes_with(mark))
    (tmp_path / "work" / "of the user").touch()
    assert len(list(killed.work.iterdir())) == 3

    server.poll(lambda: all(_is_free(file) for file in killed.work.glob(".wms-job-*.lock")))
    later = start()

    assert later.wait() == 0
    assert [path.name for path in later.work.iterdir()] == ["of the user"]
    assert "workspace.left" in later.log


def test_workspaces_of_a_running_pilot_are_kept(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    go = tmp_path / "go"
    server.add_job("/bin/sh", f"-c 'echo begun > here; while ! [ -e {go} ]; do sleep 0.05; done; cat here'")
    first = start()
    server.wait_until(lambda: server.leases and server.lease.statuses == ["Running"])
    try:
        with RunningAgent(server.url, tmp_path) as beside:
            assert beside.wait() == 0
    finally:
        go.touch()

    assert first.wait() == 0
    assert server.lease.files()["std.out"] == "begun\n"
    assert list(first.work.iterdir()) == []


def test_a_stale_workspace_is_removed_with_its_lock(tmp_path: Path) -> None:
    left_behind(tmp_path)
    left_behind(
        tmp_path, "wms-job-8-0f1e", node="host:elsewhere\nboot:" + Path("/proc/sys/kernel/random/boot_id").read_text()
    )
    (tmp_path / ".wms-job-9-0f1e.lock").write_text(f"host:{socket.gethostname()}")
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_workspace_stays(tmp_path: Path) -> None:
    directory = tmp_path / "wms-job-7-0f1e"
    with WorkspaceLock(directory):
        directory.mkdir()
        sweep(tmp_path)
        assert directory.exists()
    # Nobody removed the directory, so its file stays for who comes later.
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("node", ["host:elsewhere", "host:elsewhere\nboot:of-another", "", "\0" * 9, "host:", "ü"])
def test_a_workspace_of_another_or_unknown_node_stays(tmp_path: Path, node: str) -> None:
    directory = left_behind(tmp_path, node=node)
    sweep(tmp_path)
    assert directory.exists()
    assert stale_workspaces.file_of(directory).exists()


def test_a_directory_without_a_lock_file_stays(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    stale_workspaces.file_of(directory).unlink()
    sweep(tmp_path)
    assert directory.exists()


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    stale_workspaces.file_of(work / "wms-job-7-link").write_text(f"host:{socket.gethostname()}")
    (work / "wms-job-7-link").symlink_to(elsewhere)
    (work / ".wms-job-8-link.lock").symlink_to(stale_workspaces.file_of(work / "wms-job-7-link"))
    (work / "wms-job-8-link").mkdir()
    sweep(work)
    assert (elsewhere / "precious").exists()
    assert (work / "wms-job-8-link").exists()


@pytest.mark.root
@pytest.mark.parametrize("strange", ["wms-job-7-0f1e", ".wms-job-7-0f1e.lock"])
def test_a_workspace_of_another_user_stays(tmp_path: Path, strange: str) -> None:
    directory = left_behind(tmp_path)
    os.chown(tmp_path / strange, 65534, 65534)
    sweep(tmp_path)
    assert directory.exists()


def test_a_stopping_pilot_removes_no_further_workspaces(tmp_path: Path) -> None:
    directory = left_behind(tmp_path)
    sweep(tmp_path, stopped=lambda: True)
    assert directory.exists()


def test_without_a_work_directory_there_is_nothing_to_remove(tmp_path: Path) -> None:
    sweep(tmp_path / "absent")


def test_without_file_locks_workspaces_are_not_protected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    directory = tmp_path / "wms-job-7-0f1e"
    with WorkspaceLock(directory):
        directory.mkdir()
        sweep(tmp_path)
    assert list(tmp_path.iterdir()) == [directory]


def _is_free(file: Path) -> bool:
    with file.open("rb+") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
