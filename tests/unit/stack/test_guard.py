"""The guard: processes that it ends, and paths that it removes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.pace import wait_for
from wms.stack.guard import Guard
from wms.stack.launch import launched

#: Starts a child in a session of its own, with an empty environment where asked, tells its number, and waits.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True, env={} if sys.argv[1:] else None)
print(child.pid, flush=True)
time.sleep(60)
"""


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory" / "file").touch()
    guard = Guard(paths=[tmp_path / "directory", tmp_path / "missing"], grace_s=1)
    yield guard
    guard.finish()


def start(guard: Guard, *arguments: str) -> "tuple[subprocess.Popen[str], psutil.Process]":
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, *arguments],
        env=os.environ | guard.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    with parent.stdout:
        return parent, psutil.Process(int(parent.stdout.readline()))


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_the_guard_ends_marked_processes_and_removes_its_paths(guard: Guard, tmp_path: Path) -> None:
    parent, child = start(guard)

    guard.finish()

    assert parent.wait() == -signal.SIGTERM
    assert has_ended(child)
    assert list(tmp_path.iterdir()) == []


def test_a_child_without_the_mark_ends_with_its_family(guard: Guard) -> None:
    parent, child = start(guard, "clean")

    guard.finish()

    assert parent.wait() == -signal.SIGTERM
    assert has_ended(child)


def test_a_child_that_has_lost_its_parent_is_found_by_the_mark(guard: Guard) -> None:
    parent, child = start(guard)
    parent.kill()
    parent.wait()

    guard.finish()

    assert has_ended(child)


def test_processes_that_ignore_sigterm_are_killed(guard: Guard) -> None:
    stubborn = subprocess.Popen(
        [sys.executable, "-c", "import signal; signal.signal(15, signal.SIG_IGN); print(flush=True); signal.pause()"],
        env=os.environ | guard.environment,
        stdout=subprocess.PIPE,
    )
    assert stubborn.stdout is not None
    with stubborn.stdout:
        stubborn.stdout.readline()

    guard.finish()

    assert stubborn.wait() == -signal.SIGKILL


def test_unmarked_processes_are_not_ended(guard: Guard) -> None:
    other = subprocess.Popen(["/bin/sleep", "60"])

    guard.finish()

    assert other.poll() is None
    other.kill()
    other.wait()


def test_a_launched_program_ends_with_its_parent() -> None:
    script = (
        "import subprocess, sys, time\n"
        "from wms.stack.launch import launched\n"
        "print(subprocess.Popen(launched(['/bin/sleep', '60'])).pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent.stdout:
        child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()

    wait_for(lambda: has_ended(child), 10)


def test_a_missing_program_is_one_line() -> None:
    done = subprocess.run(launched(["/no/such/program"]), capture_output=True, text=True, check=False)

    assert done.returncode == 127
    assert done.stderr == ("/no/such/program could not be started: [Errno 2] No such file or directory\n")
