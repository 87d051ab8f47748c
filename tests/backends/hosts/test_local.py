"""A CE on this machine: its pilots run the real agent without downloading it, and end with ``up``."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pilots.agent_package import agent_package
from pilots.backends.interface import BackendError, Handle, Presence
from pilots.backends.local import LocalBackend, dismiss
from tests.agent.conftest import PYTHON
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer
from tests.backends.hosts.conftest import Host
from tests.backends.hosts.pilots import CE, SITE, description, no_pilot_left, order, process_of, start
from tests.pace import wait_for
from tests.payload_environment import ARGUMENTS, EXECUTABLE, check_environment
from wms.stack.guard import Guard


def exit_code(host: Host, stamp: str) -> int | None:
    return host.backend().status([Handle(stamp=stamp)])[stamp].exit_code


def test_the_agent_runs_from_this_machines_copy(tmp_path: Path) -> None:
    wanted = replace(order(), secret=PILOT_TOKEN)
    with ScriptedServer() as server, no_pilot_left(tmp_path):
        server.add_job("/bin/echo", "hello")
        server.configuration["place"] |= {"site": SITE, "ce": CE, "queue": wanted.queue, "processors": 1000}
        options = {"max_idle_s": 1, "node_processors": 3}
        backend = LocalBackend(description(tmp_path / "ce", options, server_url=server.url))
        assert backend.submit([wanted])[0].error == ""
        wait_for((tmp_path / "ce" / wanted.stamp / "exit_code").exists)
        (state,) = backend.status([Handle(stamp=wanted.stamp)]).values()
        said = backend.output(Handle(stamp=wanted.stamp))
        assert (state.presence, state.exit_code) == (Presence.ENDED, 0), said
        assert server.lease.files()["std.out"] == "hello\n"
        assert server.requests_to("/matches/")[0].body["processors"] == 3
    assert "pilot.started" in said
    assert not (tmp_path / "ce" / wanted.stamp / "secret").exists()
    unpacked = tmp_path / "ce" / f"agent-{agent_package().sha256[:16]}"
    assert list(unpacked.rglob("*.pyc"))  # compiled once, by the first


@pytest.mark.parametrize("python", [sys.executable, PYTHON])
def test_a_payload_has_the_documented_environment_and_nothing_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, python: str
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("WMS_SECRET_KEY", "of the server")
    wanted = replace(order(), secret=PILOT_TOKEN)
    with ScriptedServer() as server, no_pilot_left(tmp_path):
        server.add_job(EXECUTABLE, ARGUMENTS)
        server.configuration["place"] |= {"site": SITE, "ce": CE, "queue": wanted.queue, "processors": 1000}
        options = {"max_idle_s": 1, "python": python}
        backend = LocalBackend(description(tmp_path / "ce", options, server_url=server.url))
        assert backend.submit([wanted])[0].error == ""
        wait_for((tmp_path / "ce" / wanted.stamp / "exit_code").exists)
        printed = check_environment(server.leases[0].files()["std.out"], WMS_SITE=SITE, WMS_CE=CE)
    assert str(Path(sys.executable).parent) not in printed["PATH"].split(":")


def test_concurrent_starts_unpack_the_agent_once(tmp_path: Path) -> None:
    barrier = threading.Barrier(4)
    scripts = []

    def write() -> None:
        backend = LocalBackend(description(tmp_path / "ce", {}))
        barrier.wait()
        scripts.append(backend.script(wanted))

    wanted = order()
    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(scripts) == 4
    assert len(set(scripts)) == 1
    assert [path.name for path in (tmp_path / "ce").iterdir()] == [f"agent-{agent_package().sha256[:16]}"]


def test_dismissed_pilots_are_signalled_and_report_their_end(local: Host) -> None:
    stamps = [start(local.backend(), local.place)[0] for _ in range(3)]
    dismiss(local.directory.parent)
    assert [exit_code(local, stamp) for stamp in stamps] == [-signal.SIGTERM] * 3
    dismiss(local.directory.parent)
    dismiss(local.directory.parent / "nowhere")


def test_dismissed_pilots_that_do_not_leave_are_killed(local: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pilots.backends.local.LEAVE_WITHIN_S", 0.1)
    stamp, own = start(local.backend(), local.place, "stubborn")
    wait_for((own / "deaf").exists)
    dismiss(local.directory)
    assert exit_code(local, stamp) == -signal.SIGKILL


def test_payload_processes_with_pilot_names_are_not_pilots(local: Host) -> None:
    _, own = start(local.backend(), local.place, "exit0")
    wait_for((own / "exit_code").exists)
    with subprocess.Popen(["sleep", "600"]) as bystander:
        try:
            started = Path(f"/proc/{bystander.pid}/stat").read_text().rpartition(")")[2].split()[19]
            host, boot, *_ = (own / "process").read_text().split()
            number = f"{bystander.pid} {started}"
            (own / "work" / "process").write_text(f"{host} {boot} {number} {number}\n")
            dismiss(local.directory)
            assert bystander.poll() is None
        finally:
            bystander.kill()


DIRECTOR = """
import sys
from pathlib import Path
from tests.backends.hosts.pilots import StandInLocal, description, order
backend = StandInLocal(description(Path(sys.argv[1]), {}))
print(backend.submit([order()])[0].batch_id)
"""


def test_pilots_outlive_their_starter_but_not_the_stack(local: Host) -> None:
    guard = Guard()
    try:
        root = Path(__file__).parents[3]
        environment = {**os.environ, **guard.environment, "PYTHONPATH": str(root)}
        subprocess.run([sys.executable, "-c", DIRECTOR, str(local.directory)], env=environment, check=True, cwd=root)
        (file,) = local.place.glob("*/process")
        process = process_of(file.parent)
        assert process.pilot_lives
    finally:
        guard.finish()
    assert not process.lives
    assert exit_code(local, file.parent.name) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_proceses": 3}, 'has no option max_proceses; it has .*Did you mean "max_processes"'),
        ({"host": "elsewhere"}, "A CE of type local has no option host"),
        ({"max_processes": 0}, "max_processes must be a whole number, at least 1"),
        ({"max_processes": True}, "max_processes must be"),
        ({"max_idle_s": "60"}, "max_idle_s must be"),
        ({"node_processors": 0}, "node_processors must be"),
        ({"python": "/no/such/python"}, "must name an interpreter"),
        ({"python": 3}, "python must be a text"),
        ({"environment": 3}, "environment must be an object of names"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: Mapping[str, object], words: str, tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=words):
        LocalBackend(description(tmp_path, options))
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_directory_is_one_sentence() -> None:
    with pytest.raises(BackendError, match="The agent cannot be unpacked into /proc/none"):
        LocalBackend(description(Path("/proc/none"), {})).submit([order()])
