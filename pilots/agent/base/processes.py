"""Processes as Linux shows them below /proc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1024**2
_PROC = Path("/proc")


class Process(NamedTuple):
    """One line of ``/proc/<pid>/stat``."""

    pid: int
    parent: int
    #: Of the process itself, and of those of its descendants that were waited for.
    cpu_s: float
    waited_cpu_s: float
    #: Resident.
    memory_mb: float
    #: In ticks since the machine's own start; with the pid it names a process for good.
    started: int = 0


class Tree(NamedTuple):
    """All descendants of a process."""

    processes: Sequence[Process]
    #: With that of the ended ones that were waited for.
    cpu_s: float
    #: Resident; memory that several of them share counts once for each.
    memory_mb: float


class CPUMeter:
    """CPU time of a tree over its whole life.

    The kernel adds the time of an ended process to its parent's, but only if the parent waited for it: a parent that
    ignores SIGCHLD makes it vanish. So what each process gained between two looks is added up as well, and the larger
    of the two sums counts.
    """

    def __init__(self) -> None:
        self._own_s: dict[tuple[int, int], float] = {}
        self._gained_s = 0.0
        self.cpu_s = 0.0

    def add(self, tree: Tree) -> float:
        """Take another look at the tree; return the CPU time so far, which never falls."""
        now_s = {(process.pid, process.started): process.cpu_s for process in tree.processes}
        self._gained_s += sum(max(0.0, cpu_s - self._own_s.get(key, 0.0)) for key, cpu_s in now_s.items())
        self._own_s = now_s
        self.cpu_s = max(self.cpu_s, self._gained_s, tree.cpu_s)
        return self.cpu_s


def parse_stat(line: str) -> Process:
    """Return the process of one line of ``/proc/<pid>/stat``; its name may hold blanks and brackets."""
    pid, rest = line.split(" ", 1)
    # NB: the name is whatever the process calls itself; only after its last bracket are there plain fields.
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


def snapshot(proc: Path = _PROC) -> Mapping[int, Process]:
    """Return every process that can be seen; those that end meanwhile are left out."""
    found: dict[int, Process] = {}
    for name in os.listdir(proc):  # noqa: PTH208 - thousands of names, each second
        if not name.isdecimal():
            continue
        try:
            process = parse_stat((proc / name / "stat").read_text(errors="replace"))
        except (OSError, ValueError, IndexError):
            continue
        found[process.pid] = process
    return found


def descendants(root: int, processes: Mapping[int, Process]) -> Sequence[Process]:
    """Return children of *root*, their children, and so on; not *root* itself."""
    children: dict[int, list[Process]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    level = children.get(root, [])
    while level:
        found += level
        level = [child for process in level for child in children.get(process.pid, [])]
    return found


def measure(root: int) -> Tree:
    """Return what the descendants of *root* use, with the CPU time of those that it has waited for."""
    processes = snapshot()
    below = descendants(root, processes)
    waited_by_root_s = processes[root].waited_cpu_s if root in processes else 0.0
    return Tree(
        processes=below,
        cpu_s=waited_by_root_s + sum(process.cpu_s + process.waited_cpu_s for process in below),
        memory_mb=sum(process.memory_mb for process in below),
    )


def is_being_killed(pid: int) -> bool:
    """Return whether a process has received SIGKILL, after which it executes none of its own instructions."""
    try:
        status = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return True
    pending = [int(line.split()[1], 16) for line in status.splitlines() if line.startswith(("SigPnd:", "ShdPnd:"))]
    return any(mask >> (signal.SIGKILL - 1) & 1 for mask in pending)


def kill(pids: Iterable[int]) -> None:
    """Kill those that are still there and may be killed."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue


def reap_orphans() -> None:
    """Collect the dead children of this process; only where none of them is waited for elsewhere."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
