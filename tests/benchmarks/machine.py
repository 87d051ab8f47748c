"""The machine of the figures, and the CPU time that each part of the system has used."""

import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TypeAlias

import psutil
import psycopg

from tests.pace import timed_piece

_SETTINGS = ("server_version", "fsync", "synchronous_commit", "shared_buffers")


Machine: TypeAlias = Mapping[str, str | int]


def describe_machine(database: "psycopg.Connection[tuple[object, ...]]") -> Machine:
    """Return the properties of the machine on which the figures depend."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "cpu": _cpu_model(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "python": platform.python_version(),
        **_postgres_settings(database),
    }


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _postgres_settings(database: "psycopg.Connection[tuple[object, ...]]") -> dict[str, str]:
    rows = database.execute("SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [list(_SETTINGS)])
    return {f"postgres_{str(name).removeprefix('server_')}": str(value) for name, value in rows}


@dataclass(slots=True)
class CpuUse:
    """CPU time that was used during a measurement."""

    elapsed_s: float = 0.0
    #: CPU seconds by part of the system.
    used_s: dict[str, float] = field(default_factory=dict)

    def facts(self) -> dict[str, float]:
        """Return the cores that each part kept busy, and their sum."""
        cores = {f"cores busy, {part}": used / self.elapsed_s for part, used in self.used_s.items()}
        return {**cores, "cores busy, all": sum(self.used_s.values()) / self.elapsed_s}


class Pace:
    """The slowdown of the machine by other processes that share its cores.

    The same piece of Python is run repeatedly; its shortest time is taken as that of an undisturbed machine.
    """

    def __init__(self) -> None:
        self._times_s: list[float] = []

    def sample(self) -> None:
        """Run the piece, about a millisecond."""
        self._times_s.append(timed_piece())

    def slowness(self) -> float:
        """Return the mean time of the piece, divided by its shortest time."""
        if not self._times_s:
            return 1.0
        return math.fsum(self._times_s) / len(self._times_s) / min(self._times_s)


@contextmanager
def cpu_measured(parts: Mapping[str, Iterable[psutil.Process]]) -> Iterator[CpuUse]:
    """Measure the CPU time of these processes with all their descendants, and that of this process, the client.

    The result is complete at the end of the block.
    """
    roots = {part: list(processes) for part, processes in parts.items()}
    use = CpuUse()
    before = {part: sum(map(_cpu_s_of_family, processes)) for part, processes in roots.items()}
    begun, begun_own_s = perf_counter(), process_time()
    yield use
    use.elapsed_s, use.used_s["client"] = perf_counter() - begun, process_time() - begun_own_s
    for part, processes in roots.items():
        use.used_s[part] = sum(map(_cpu_s_of_family, processes)) - before[part]


def _cpu_s_of_family(root: psutil.Process) -> float:
    """Return the CPU seconds of the process and its descendants; those of ended children count as their parent's."""
    total = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue  # it has just ended, and is counted with its parent the next time
        total += times.user + times.system + times.children_user + times.children_system
    return total
