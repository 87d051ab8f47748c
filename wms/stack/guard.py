"""The guard: a small process that outlives the supervisor, and then ends all processes that it started.

Every process of the supervisor carries a mark in its environment, which its descendants inherit, in any session or
process group and with any parent. When the guard's standard input ends, because the supervisor finished or was killed,
the guard ends every marked process and its descendants.

This file is also a program of its own, run with the standard library alone:
``python -I -S guard.py MARK GRACE PATH …``.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_VARIABLE = "WMS_STACK_MARK"
_POLL_S = 0.05
#: Seconds for processes to end after SIGKILL; one stuck in the kernel is given up.
_KILLED_WITHIN_S = 5.0


class Guard:
    """The guard, as used by its owner.

    Args:
        paths: files and directories to remove at the end.
        keep: descriptors, such as that of a lock, held until the end.
        grace_s: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, *, paths: Iterable[Path] = (), keep: Sequence[int] = (), grace_s: float = 3.0) -> None:
        self._mark = secrets.token_hex(16)
        command = [sys.executable, "-I", "-S", __file__, self._mark, str(grace_s), *map(str, paths)]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(  # noqa: S603 - this file
            command,
            stdin=subprocess.PIPE,
            stdout=quiet,
            stderr=quiet,
            pass_fds=keep,
            start_new_session=True,
            cwd="/",
        )

    @property
    def environment(self) -> dict[str, str]:
        """The variable that marks a process for the guard."""
        return {_VARIABLE: self._mark}

    def finish(self) -> None:
        """End the remaining processes, remove the paths, and wait for both."""
        self._process.communicate()


class _Process(NamedTuple):
    """One process; the time of its start distinguishes it from a later one with the same number."""

    number: int
    start: int


def main(arguments: Sequence[str]) -> None:
    """Wait for the owner's end, then end the processes and remove the paths."""
    mark, grace_s, *paths = arguments
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(mark, grace_s=float(grace_s))
    for path in map(Path, paths):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def sweep(mark: str, *, grace_s: float) -> None:
    """End every marked process and all their descendants, by SIGTERM and then SIGKILL."""
    living: set[_Process] = set()
    begun = time.monotonic()
    terminated: set[_Process] = set()
    while time.monotonic() - begun < grace_s + _KILLED_WITHIN_S:
        parents = dict(_processes())
        # Processes found earlier are kept: the descent of a child is lost when its parent ends first.
        living = _family(parents, living | {process for process in parents if _is_marked(process, mark)})
        if not living:
            return
        if time.monotonic() - begun >= grace_s:
            _send(signal.SIGKILL, living)
        else:
            _send(signal.SIGTERM, living - terminated)
            terminated |= living
        time.sleep(_POLL_S)


def _family(parents: Mapping[_Process, int], roots: set[_Process]) -> set[_Process]:
    """Return the living processes of *roots*, with all their living descendants."""
    family = roots & parents.keys()
    while True:
        numbers = {process.number for process in family}
        more = {process for process, parent in parents.items() if parent in numbers} - family
        if not more:
            return family
        family |= more


def _processes() -> Iterator[tuple[_Process, int]]:
    """Yield every process that has not ended (a zombie has), with the number of its parent."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The program's name, in parentheses, may contain any character.
            state, parent, *rest = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except (OSError, ValueError):
            continue  # it has just ended
        if state not in "ZX":
            yield _Process(number=int(entry.name), start=int(rest[17])), int(parent)


def _is_marked(process: _Process, mark: str) -> bool:
    try:
        environment = Path(f"/proc/{process.number}/environ").read_bytes()
    except OSError:
        return False
    return f"{_VARIABLE}={mark}".encode() in environment.split(b"\0")


def _send(number: signal.Signals, processes: Iterable[_Process]) -> None:
    for process in processes:
        try:
            os.kill(process.number, number)
        except OSError:
            continue  # it has just ended


if __name__ == "__main__":
    main(sys.argv[1:])
