"""Processes as Linux shows them below /proc."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Mapping
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
    memory_mb: float


class Tree(NamedTuple):
    """What all descendants of a process use together."""

    processes: int
    cpu_s: float
    memory_mb: float


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


def descendants(root: int, processes: Mapping[int, Process]) -> Iterable[Process]:
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
    below = list(descendants(root, processes))
    waited_by_root_s = processes[root].waited_cpu_s if root in processes else 0.0
    return Tree(
        processes=len(below),
        cpu_s=waited_by_root_s + sum(process.cpu_s + process.waited_cpu_s for process in below),
        memory_mb=sum(process.memory_mb for process in below),
    )


def kill_descendants(root: int) -> int:
    """Kill every descendant of *root*; return how many there were, so that one can go on until there are none."""
    below = list(descendants(root, snapshot()))
    for process in below:
        try:
            os.kill(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return len(below)


def reap_orphans() -> None:
    """Collect the dead children of this process; only where none of them is waited for elsewhere."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
