"""Commands `up` and `demo` run as their users run them, and checks of what they leave behind."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import psutil

from tests.pace import wait_for, within

PROJECT = Path(__file__).parents[3]
#: Of the whole system, on a machine that does other things too.
READY_WITHIN_S = 120.0


def environment() -> dict[str, str]:
    """Return the environment of a user, without variables of the tests' own servers."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WMS_")}


def manage(*arguments: str) -> list[str]:
    """Return the command line of a management command."""
    return [sys.executable, str(PROJECT / "manage.py"), *arguments]


def free_port() -> int:
    """Return a port on which no process listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        number: int = listener.getsockname()[1]
        return number


def environment_of(data: Path) -> dict[str, str]:
    """Return the variables of the system that runs in a data directory, as it has written them for commands."""
    return dict(word.split("=", 1) for word in shlex.split((data / "environment").read_text()))


def make_trap(directory: Path) -> Path:
    """Make and return a directory with modules of an attacker, each of which leaves its name when it is imported."""
    directory.mkdir()
    # The server imports these, at any time of its start.
    for name in ("celery", "kombu", "psycopg", "resources", "pilots", "matching", "wms", "redis", "granian"):
        (directory / f"{name}.py").write_text(f"open({str(directory / 'trace')!r}, 'a').write('{name} ')\n")
    return directory


def imported_from(trap: Path) -> str:
    """Return the names of the modules that were imported out of a trap."""
    trace = trap / "trace"
    return trace.read_text() if trace.exists() else ""


@contextmanager
def running_up(
    command: Sequence[str], log: Path, *, variables: Mapping[str, str] = MappingProxyType({})
) -> Iterator[psutil.Process]:
    """Run a command that starts the system until it is up, with its output in a file; return the supervisor.

    Args:
        command: `up` with its options, or what becomes it.
        log: the file.
        variables: of its environment, beside those of a user.
    """
    with log.open("wb") as output:
        up = subprocess.Popen(command, env={**environment(), **variables}, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_for(lambda: "The system is up at" in log.read_text() or up.poll() is not None, READY_WITHIN_S)
        assert up.poll() is None, log.read_text()
        yield psutil.Process(up.pid)
        up.send_signal(signal.SIGINT)
        assert up.wait(timeout=within(60)) == 0, log.read_text()
    finally:
        if up.poll() is None:
            up.kill()
            up.wait()


def refused(command: Sequence[str]) -> str:
    """Run a command that must fail, and return its last line."""
    done = subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=within(READY_WITHIN_S), check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.strip().splitlines()[-1]


def processes_of(directory: Path) -> list[str]:
    """Return the command lines of all processes that name the directory in their arguments or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            words = [*process.cmdline(), *process.environ().values()]
            if process.status() != psutil.STATUS_ZOMBIE and any(str(directory) in word for word in words):
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found
