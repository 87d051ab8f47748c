"""Pilots as processes of this machine: started, looked at, killed, and never left behind."""

import io
import os
import signal
import socket
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

from pilots.backends.interface import BackendError, BatchState, PilotOrder, Presence
from pilots.backends.local import LocalBackend, parse_options

#: Stands in for the agent: keeps what it was given, then does what its queue is called.
PROGRAM = """
import os, signal, sys, time
with open("told", "w") as file:
    file.write("\\n".join([sys.stdin.readline(), " ".join(sys.argv), *os.environ]))
os.rename("told", "given")
what = sys.argv[sys.argv.index("--queue") + 1]
if what == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    open("deaf", "w").close()
if what.startswith("exit"):
    sys.exit(int(what[4:]))
time.sleep(600)
"""
WITHIN_S = 30.0


def packed(program: str = PROGRAM) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("__main__.py", program)
    return content.getvalue()


def order(queue: str = "sleep") -> PilotOrder:
    return PilotOrder(stamp=uuid4().hex, secret="wmsr_secret", vo="lhcb", site="CERN", ce="ce01", queue=queue)


def wait_for(condition: Callable[[], object]) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.02)


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[LocalBackend]:
    made = LocalBackend(tmp_path / "ce", server_url="http://localhost:1/", program=packed())
    yield made
    made.kill([str(key) for key in made._children])
    made.close()


def start(backend: LocalBackend, tmp_path: Path, queue: str = "sleep") -> tuple[str, Path]:
    """Return the id and the directory of a pilot that has begun."""
    wanted = order(queue)
    (submission,) = backend.submit([wanted])
    assert submission.error == ""
    directory = tmp_path / "ce" / wanted.stamp
    wait_for((directory / "given").exists)
    return submission.batch_id, directory


def pid_of(batch_id: str) -> int:
    return int(batch_id.split(":")[1])


def test_a_pilot_gets_its_place_as_arguments_and_its_secret_by_standard_input_alone(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMS_SECRET_KEY", "secret-of-the-server")
    batch_id, directory = start(backend, tmp_path)

    secret, blank, arguments, *environment = (directory / "given").read_text().split("\n")
    assert (secret, blank) == ("wmsr_secret", "")
    assert "--server http://localhost:1/ --token-file - --vo lhcb --site CERN --ce ce01 --queue sleep" in arguments
    assert "wmsr_" not in " ".join(psutil.Process(pid_of(batch_id)).cmdline())
    assert "PATH" in environment
    assert "WMS_SECRET_KEY" not in environment
    assert (tmp_path / "ce").stat().st_mode & 0o077 == 0


def test_pilots_run_until_they_end_and_how_they_ended_is_known(backend: LocalBackend, tmp_path: Path) -> None:
    sleeping, _ = start(backend, tmp_path)
    ended, directory = start(backend, tmp_path, "exit3")
    wait_for(lambda: backend.status([ended])[ended].presence is Presence.ENDED)

    assert backend.status([sleeping, ended]) == {
        sleeping: BatchState(presence=Presence.RUNNING),
        ended: BatchState(presence=Presence.ENDED, exit_code=3),
    }
    assert not (directory / "work").exists()
    assert (directory / "agent.log").exists()


def test_a_killed_pilot_has_ended_by_that_signal(backend: LocalBackend, tmp_path: Path) -> None:
    batch_id, _ = start(backend, tmp_path)
    backend.kill([batch_id, "elsewhere:1:1", "nonsense"])
    wait_for(lambda: backend.status([batch_id])[batch_id].presence is Presence.ENDED)
    assert backend.status([batch_id])[batch_id].exit_code == -signal.SIGKILL
    backend.kill([batch_id])


def test_capacity_is_what_is_left_of_the_processes(backend: LocalBackend, tmp_path: Path) -> None:
    backend.configure({"max_processes": 2})
    assert backend.capacity() == 2
    first, _ = start(backend, tmp_path)
    start(backend, tmp_path)
    assert backend.capacity() == 0
    backend.kill([first])
    wait_for(lambda: backend.capacity() == 1)


def test_a_pilot_that_cannot_be_started_keeps_no_other_back(backend: LocalBackend, tmp_path: Path) -> None:
    blocked, wanted = order(), order()
    (tmp_path / "ce" / blocked.stamp).write_text("in the way")

    first, second = backend.submit([blocked, wanted])

    assert "could not be started" in first.error
    assert (first.batch_id, second.error) == ("", "")
    assert backend.status([second.batch_id])[second.batch_id].presence is Presence.RUNNING


def test_close_asks_pilots_to_leave(backend: LocalBackend, tmp_path: Path) -> None:
    batch_id, directory = start(backend, tmp_path)
    backend.close()
    assert backend.status([batch_id])[batch_id] == BatchState(presence=Presence.ENDED, exit_code=-signal.SIGTERM)
    assert not (directory / "work").exists()


def test_close_kills_pilots_that_do_not_leave(
    backend: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pilots.backends.local.LEAVE_WITHIN_S", 0.1)
    batch_id, directory = start(backend, tmp_path, "stubborn")
    wait_for((directory / "deaf").exists)
    backend.close()
    assert backend.status([batch_id])[batch_id] == BatchState(presence=Presence.ENDED, exit_code=-signal.SIGKILL)


DIRECTOR = """
import sys, time
from pathlib import Path
from pilots.backends.local import LocalBackend
from tests.unit.pilots.test_local_backend import order, packed
backend = LocalBackend(Path(sys.argv[1]), server_url="http://localhost:1/", program=packed())
print(backend.submit([order()])[0].batch_id, flush=True)
time.sleep(600)
"""


def test_a_killed_director_leaves_no_pilot_and_the_next_one_notices(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", DIRECTOR, str(tmp_path / "ce")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as director:
        assert director.stdout is not None
        batch_id = director.stdout.readline().strip()
        next_one = LocalBackend(tmp_path / "ce", server_url="http://localhost:1/", program=packed())
        assert next_one.status([batch_id])[batch_id] == BatchState(presence=Presence.RUNNING)
        (given,) = (tmp_path / "ce").glob("*/batch_id")
        assert (given.parent / "work").exists()

        director.kill()
        director.wait()

        wait_for(lambda: next_one.status([batch_id])[batch_id] == BatchState(presence=Presence.ENDED))
    LocalBackend(tmp_path / "ce", server_url="http://localhost:1/", program=packed())
    assert not (given.parent / "work").exists()
    assert given.exists()


def test_another_process_of_the_same_number_is_not_the_pilot(backend: LocalBackend) -> None:
    ours = f"{socket.gethostname()}:{os.getpid()}:1"
    assert backend.status([ours]) == {ours: BatchState(presence=Presence.ENDED)}
    backend.kill([ours])  # else this test has just ended


@pytest.mark.parametrize("batch_id", ["elsewhere:1:1", "4711", "", f"{socket.gethostname()}:x:y"])
def test_what_runs_elsewhere_is_unknown_not_ended(backend: LocalBackend, batch_id: str) -> None:
    assert backend.status([batch_id]) == {batch_id: BatchState(presence=Presence.UNKNOWN)}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_proceses": 3}, "no option max_proceses"),
        ({"max_processes": 0}, "max_processes must be a whole number above 0"),
        ({"max_processes": True}, "max_processes must be"),
        ({"max_idle_s": "60"}, "max_idle_s must be"),
        ({"python": "/no/such/python"}, "must name an interpreter"),
        ({"python": 3}, "must name an interpreter"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, object], words: str) -> None:
    with pytest.raises(BackendError, match=words):
        parse_options(options)


def test_an_interpreter_is_found_by_its_name() -> None:
    assert parse_options({"python": "sh"}).python.endswith("/sh")
