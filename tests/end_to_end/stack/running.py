"""Commands `up` and `demo` run as their users run them, and checks of what they leave behind."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil

from tests.pace import within

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
