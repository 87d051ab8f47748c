"""Processes: their usage, from /proc, and short commands that are run to their end."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1024**2
_PROC = Path("/proc")


class Process(NamedTuple):
    """Fields of ``/proc/<pid>/stat``."""

    pid: int
    parent: int
    #: CPU time of the process itself, and of descendants that were waited for.
    cpu_s: float
    waited_cpu_s: float
    #: Resident.
    memory_mb: float
    #: Start time in ticks since boot; unique together with the pid.
    started: int = 0


class Tree(NamedTuple):
    """All descendants of a process."""

    processes: Sequence[Process]
    #: Includes ended processes that were waited for.
    cpu_s: float
    #: Resident; shared memory counts once for each process.
    memory_mb: float


class CPUMeter:
    """CPU time of a process tree over its whole life.

    The kernel adds the time of an ended process to its parent's only if the parent waits for it, not if it ignores
    SIGCHLD. So the increases of each process between two measurements are summed too, and the larger sum counts.
    """

    def __init__(self) -> None:
        self._own_s: dict[tuple[int, int], float] = {}
        self._gained_s = 0.0
        self.cpu_s = 0.0

    def add(self, tree: Tree) -> float:
        """Add a measurement of the tree; return the CPU time so far, which never decreases."""
        now_s = {(process.pid, process.started): process.cpu_s for process in tree.processes}
        self._gained_s += sum(max(0.0, cpu_s - self._own_s.get(key, 0.0)) for key, cpu_s in now_s.items())
        self._own_s = now_s
        self.cpu_s = max(self.cpu_s, self._gained_s, tree.cpu_s)
        return self.cpu_s


def parse_stat(line: str) -> Process:
    """Parse one line of ``/proc/<pid>/stat``; the name may contain blanks and brackets."""
    pid, rest = line.split(" ", 1)
    # NB: the process chooses its name; plain fields begin after the last bracket.
    fields = rest.rpartition(")")[2].split()
    own, waited = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Process(
        pid=int(pid),
        parent=int(fields[1]),
        cpu_s=own / _TICKS_PER_S,
        waited_cpu_s=waited / _TICKS_PER_S,
        memory_mb=max(0, int(fields[21])) * _PAGE_MB,
        started=int(fields[19]),
    )


def snapshot() -> Mapping[int, Process]:
    """Return {pid: process} of all visible processes; those that end meanwhile are left out."""
    visible: dict[int, Process] = {}
    for name in os.listdir(_PROC):
        if not name.isdecimal():
            continue
        try:
            process = parse_stat((_PROC / name / "stat").read_text(errors="replace"))
        except (OSError, ValueError, IndexError):
            continue
        visible[process.pid] = process
    return visible


def descendants(root: int, processes: Mapping[int, Process]) -> Sequence[Process]:
    """Return all descendants of *root*, without *root* itself."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    below: list[Process] = []
    level = children.get(root, [])
    while level:
        below += level
        level = [child for process in level for child in children.get(process.pid, [])]
    return below


def measure(root: int) -> Tree:
    """Return the usage of the descendants of *root*, with the CPU time of those that it has waited for."""
    processes = snapshot()
    below = descendants(root, processes)
    waited_by_root_s = processes[root].waited_cpu_s if root in processes else 0.0
    return Tree(
        processes=below,
        cpu_s=waited_by_root_s + sum(process.cpu_s + process.waited_cpu_s for process in below),
        memory_mb=sum(process.memory_mb for process in below),
    )


def is_being_killed(pid: int) -> bool:
    """Return whether SIGKILL is pending for a process, or it has ended: it runs no instruction any more."""
    try:
        status = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return True
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


def kill(pids: Iterable[int]) -> None:
    """Kill the processes that still exist and may be killed."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def reap_orphans() -> None:
    """Reap ended children of this process; only where no other code waits for a child."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run_command(
    argv: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without a shell and without input; return its exit code, output and errors.

    Args:
        argv: program and arguments.
        timeout_s: seconds after which it is killed.
        environment: its variables; None: the pilot's.

    Raises:
        OSError: it could not be started.
        subprocess.TimeoutExpired: it was killed.
    """
    return subprocess.run(  # noqa: S603 - the agent chooses the command, and there is no shell
        argv, check=False, timeout=timeout_s, env=None if environment is None else dict(environment), cwd="/",
        stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
    )  # fmt: skip
