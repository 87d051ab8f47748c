"""The watchdog: measures the usage of the payload and compares it with the limits (PIL §2.1)."""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pilots.agent.base import processes
from pilots.agent.base.clock import monotonic
from pilots.agent.base.processes import CPUMeter, Process
from pilots.agent.job.memory_use import Memory
from wms.wire.protocol import Usage

#: Largest part of the time that measuring disk use may take.
_DISK_EFFORT = 1 / 20
#: Periods between two measurements after which the slot counts as suspended meanwhile, with its payload.
_SUSPENDED = 3
#: Key of the warning of a payload that is nearly stalled.
_STALLED = "stalled"
_MB = 1024**2
#: Part of a file system's inodes that must be free: they may run out before the space.
_LEAST_FREE_FILES = 0.01


@dataclass(frozen=True)
class PayloadLimits:
    """Limits of a payload; infinite, or 0 for minima: no limit."""

    cpu_s: float = math.inf
    #: Until the slot ends.
    wall_s: float = math.inf
    #: Required by the job.
    asked_wall_s: float = math.inf
    memory_mb: float = math.inf
    disk_mb: float = math.inf
    #: Of a job that requires no disk.
    unasked_disk_mb: float = math.inf
    #: At once.
    processes: float = math.inf
    #: Of standard output and error each.
    stream_mb: float = math.inf
    #: Free space that must be left on the file system.
    min_free_disk_mb: float = 0.0
    #: A payload is stalled if it uses less than this fraction of one core for this time.
    stalled_s: float = math.inf
    stalled_cpu_fraction: float = 0.0
    #: Fraction of stalled_s after which the owner is warned.
    stalled_warning_fraction: float = 0.5
    #: Fraction of a limit at which the owner is warned.
    warning_fraction: float = 1.0


@dataclass(frozen=True)
class LimitVerdict:
    """An exceeded limit.

    Attributes:
        sentence: minor status with usage and limit.
        elsewhere: True if the node is the cause, so that the job is to run on another one.
    """

    sentence: str
    elsewhere: bool = False


class _Measured(NamedTuple):
    what: str
    used: float
    limit: float
    unit: str
    #: Clause about a part of what is used.
    part: str = ""


class Watchdog:
    """The highest usage of a payload so far, compared with its limits."""

    def __init__(
        self,
        limits: PayloadLimits,
        *,
        root: int,
        directory: Path,
        disk_mb: Callable[[Sequence[Process]], float | None],
        memory: Callable[[Sequence[Process]], Memory],
        streams: Sequence[int] = (),
        look_every_s: float = math.inf,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Watch a payload that has just started.

        Args:
            limits: of this payload.
            root: process id of the supervisor.
            directory: on the file system that must not become full.
            disk_mb: returns the disk use of the payload with these processes; None: it cannot be measured.
            memory: returns the memory of the payload with these processes.
            streams: descriptors of standard output and, if it is another file, of standard error.
            look_every_s: seconds between two measurements.
            clock: for wall-clock time.
        """
        self._limits = limits
        self._root = root
        self._directory = directory
        self._read_disk_mb = disk_mb
        self._read_memory = memory
        self._streams = streams
        self._longest_gap_s = _SUSPENDED * look_every_s
        self._clock = clock
        self._started_at = self._looked_at = clock()
        self._next_walk_at = self._started_at
        self._meter = CPUMeter()
        #: (time, CPU time until then) of the last stalled_s seconds.
        self._past: deque[tuple[float, float]] = deque([(self._started_at, 0.0)])
        self._warned: set[str] = set()
        #: Files in memory at the highest use of memory.
        self._files_mb = 0.0
        self._process_count = 0
        #: Read by the thread of the heartbeat; replaced as a whole.
        self.usage = Usage(cpu_s=0.0, wall_s=0.0)

    def look(self) -> LimitVerdict | None:
        """Measure; return an exceeded limit, or None."""
        tree = processes.measure(self._root)
        memory = self._read_memory(tree.processes)
        if memory.total_mb > (self.usage.memory_mb or 0.0):
            self._files_mb = memory.files_mb
        now, self._process_count = self._clock(), len(tree.processes)
        self.usage = self.usage._replace(
            cpu_s=max(self.usage.cpu_s or 0.0, self._meter.add(tree)),
            wall_s=now - self._started_at,
            memory_mb=max(self.usage.memory_mb or 0.0, memory.total_mb),
            disk_mb=self._disk_mb(tree.processes),
        )
        self._remember(now)
        return self._verdict()

    def warnings(self) -> Sequence[str]:
        """Return new warnings: limits that are near, and that the payload is no longer nearly stalled."""
        near = dict(self._near())
        new = [sentence for what, sentence in near.items() if what not in self._warned]
        if _STALLED in self._warned and _STALLED not in near:
            # Unlike the other limits this one may be near several times.
            self._warned.remove(_STALLED)
            new.append("No longer nearly stalled: the payload uses CPU time again")
        self._warned |= near.keys()
        return new

    def _near(self) -> Iterator[tuple[str, str]]:
        fraction = self._limits.warning_fraction
        for what, used, limit, unit, part in self._measured():
            if used > limit * fraction:
                yield what, f"Near the {what}: {_shown(used)} {unit} of {_shown(limit)} {unit}{part}"
        free_mb = free_disk_mb(self._directory)
        if free_mb is not None and free_mb * fraction < self._limits.min_free_disk_mb:
            least_mb = _shown(self._limits.min_free_disk_mb)
            yield "disk", f"The disk of the node is nearly full: {_shown(free_mb)} MB are free, {least_mb} MB must be"
        idle = self._stalled_for(self._limits.stalled_s * self._limits.stalled_warning_fraction)
        if idle is not None:
            yield _STALLED, f"Nearly stalled: {idle}; it is stopped after {_shown(self._limits.stalled_s)} s of this"

    def close(self, *, cpu_s: float | None, max_memory_mb: float | None) -> Usage:
        """Return the final usage, with processes that lived only between two measurements.

        Args:
            cpu_s: of all processes that the supervisor waited for; None: unknown.
            max_memory_mb: of the largest single process; None: unknown.
        """
        self._next_walk_at = 0.0
        self.usage = self.usage._replace(
            cpu_s=max(self.usage.cpu_s or 0.0, cpu_s or 0.0),
            wall_s=self._clock() - self._started_at,
            memory_mb=max(self.usage.memory_mb or 0.0, max_memory_mb or 0.0),
            disk_mb=self._disk_mb(()),
        )
        return self.usage

    # ---- judging

    def _verdict(self) -> LimitVerdict | None:
        for what, used, limit, unit, part in self._measured():
            if used > limit:
                sentence = f"{what} exceeded: {_shown(used)} {unit} of {_shown(limit)} {unit}{part}"
                return LimitVerdict(sentence[0].upper() + sentence[1:])
        free_mb = free_disk_mb(self._directory)
        if free_mb is not None and free_mb < self._limits.min_free_disk_mb:
            least = f"{_shown(free_mb)} MB are free, {_shown(self._limits.min_free_disk_mb)} MB must be"
            # A job within the disk limit that it requires is not the cause.
            asked_for_disk = math.isfinite(self._limits.disk_mb)
            return LimitVerdict(f"The disk of the node is full: {least}", elsewhere=asked_for_disk)
        if (left := free_files(self._directory)) is not None and left < _LEAST_FREE_FILES:
            least = f"{left:.1%} of its inodes are free, {_LEAST_FREE_FILES:.0%} must be"
            return LimitVerdict(f"The disk of the node is full: {least}", elsewhere=math.isfinite(self._limits.disk_mb))
        idle = self._stalled_for(self._limits.stalled_s)
        return None if idle is None else LimitVerdict(f"Stalled: {idle}")

    def _measured(self) -> Iterator[_Measured]:
        used, limits = self.usage, self._limits
        yield _Measured("CPU time limit", used.cpu_s or 0.0, limits.cpu_s, "s")
        yield _Measured("wall-clock limit", used.wall_s or 0.0, limits.asked_wall_s, "s")
        yield _Measured("wall clock limit of the slot", used.wall_s or 0.0, limits.wall_s, "s")
        yield _Measured("memory limit", used.memory_mb or 0.0, limits.memory_mb, "MB", self._shown_files())
        yield _Measured("disk limit", used.disk_mb or 0.0, limits.disk_mb, "MB")
        yield _Measured(
            "disk limit of a job without a disk requirement", used.disk_mb or 0.0, limits.unasked_disk_mb, "MB"
        )
        yield _Measured("process limit", self._process_count, limits.processes, "processes")
        for number, descriptor in enumerate(self._streams):
            name = ("standard output", "standard error")[number]
            yield _Measured(f"limit of {name}", _size_mb(descriptor), limits.stream_mb, "MB")

    def _shown_files(self) -> str:
        return f", {_shown(self._files_mb)} MB of it files in memory (/dev/shm)" if self._files_mb >= 1 else ""

    # ---- measuring

    def _remember(self, now: float) -> None:
        cpu_s = self.usage.cpu_s or 0.0
        if now - self._looked_at > self._longest_gap_s or math.isinf(self._limits.stalled_s):
            self._past.clear()
        self._looked_at = now
        self._past.append((now, cpu_s))
        while len(self._past) > 1 and now - self._past[1][0] >= self._limits.stalled_s:
            self._past.popleft()

    def _stalled_for(self, span_s: float) -> str | None:
        """Return a clause with the CPU time of the last *span_s* seconds if it is too little, else None."""
        now, cpu_s = self._past[-1]
        before = next(((at, was_s) for at, was_s in reversed(self._past) if now - at >= span_s > 0), None)
        if before is None:
            return None
        used_s, took_s = cpu_s - before[1], now - before[0]
        least_s = took_s * self._limits.stalled_cpu_fraction
        if used_s >= least_s:
            return None
        return f"{_shown(used_s)} s of CPU time in {_shown(took_s)} s, at least {_shown(least_s)} s are expected"

    def _disk_mb(self, payload_processes: Sequence[Process]) -> float | None:
        began = self._clock()
        if began < self._next_walk_at:
            return self.usage.disk_mb
        used_mb = self._read_disk_mb(payload_processes)
        ended = self._clock()
        self._next_walk_at = ended + (ended - began) / _DISK_EFFORT
        return self.usage.disk_mb if used_mb is None else max(self.usage.disk_mb or 0.0, used_mb)


def free_disk_mb(directory: Path) -> float | None:
    """Return the free space of the file system of *directory*; None: unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return None
    return status.f_bavail * status.f_frsize / _MB


def free_files(directory: Path) -> float | None:
    """Return the free fraction of the file system's inodes; None: no limit, or unknown."""
    try:
        status = os.statvfs(directory)
    except OSError:
        return None
    return status.f_favail / status.f_files if status.f_files else None


def _size_mb(descriptor: int) -> float:
    try:
        return os.fstat(descriptor).st_size / _MB
    except OSError:
        return 0.0


def _shown(amount: float) -> str:
    """Return the amount with one decimal, rounded up, so that an exceeded limit never looks just reached."""
    return f"{math.ceil(amount * 10 - 1e-6) / 10:.1f}".removesuffix(".0")
