"""Looks at the payload again and again: what it uses, and whether that is too much (PIL §2.1)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pilots.agent import processes
from pilots.agent.clock import monotonic
from pilots.agent.server import Usage

#: Walking a directory with very many files may take this part of the time at most.
_DISK_EFFORT = 1 / 20


@dataclass(frozen=True)
class PayloadLimits:
    """How far a payload may go; in seconds."""

    cpu_s: float
    #: Until the slot ends.
    wall_s: float
    #: That the job asked for; 0: it said nothing.
    asked_wall_s: float = 0.0


class Watchdog:
    """Keeps the highest usage seen, and says when it is too much."""

    def __init__(
        self, limits: PayloadLimits, *, directory: Path, root: int, clock: Callable[[], float] = monotonic
    ) -> None:
        """Begin to watch a payload that has just started.

        Args:
            limits: of this payload.
            directory: the payload's.
            root: the process whose descendants the payload's are.
            clock: by which wall-clock time is measured.
        """
        self._limits = limits
        self._directory = directory
        self._root = root
        self._clock = clock
        self._started_at = clock()
        self._next_walk_at = self._started_at
        #: Read by the heartbeat's thread; replaced as a whole.
        self.usage = Usage(cpu_s=0.0, wall_s=0.0)

    def look(self) -> str | None:
        """Measure; return what the payload has done wrong, for its owner to read, or None."""
        tree = processes.measure(self._root)
        self.usage = replace(
            self.usage,
            cpu_s=max(self.usage.cpu_s or 0.0, tree.cpu_s),
            wall_s=self._clock() - self._started_at,
            memory_mb=max(self.usage.memory_mb or 0.0, tree.memory_mb),
            disk_mb=self._disk_mb(),
        )
        return self._verdict()

    def close(self, *, cpu_s: float | None, max_memory_mb: float | None) -> Usage:
        """Return the final usage; processes between two looks are known by what their parent was told of them.

        Args:
            cpu_s: of all processes that were waited for; None: not known.
            max_memory_mb: of the largest single process; None: not known.
        """
        self._next_walk_at = 0.0
        self.usage = replace(
            self.usage,
            cpu_s=max(self.usage.cpu_s or 0.0, cpu_s or 0.0),
            wall_s=self._clock() - self._started_at,
            memory_mb=max(self.usage.memory_mb or 0.0, max_memory_mb or 0.0),
            disk_mb=self._disk_mb(),
        )
        return self.usage

    def _verdict(self) -> str | None:
        used, limits = self.usage, self._limits
        if (used.cpu_s or 0.0) > limits.cpu_s:
            return f"CPU time limit exceeded: {used.cpu_s:.0f} s of {limits.cpu_s:.0f} s"
        if 0 < limits.asked_wall_s < (used.wall_s or 0.0):
            return f"Wall-clock limit exceeded: {used.wall_s:.0f} s of {limits.asked_wall_s:.0f} s"
        if (used.wall_s or 0.0) > limits.wall_s:
            return f"Wall clock limit of the slot exceeded: {used.wall_s:.0f} s of {limits.wall_s:.0f} s"
        return None

    def _disk_mb(self) -> float | None:
        began = self._clock()
        if began < self._next_walk_at:
            return self.usage.disk_mb
        used_mb = disk_usage_mb(self._directory)
        ended = self._clock()
        self._next_walk_at = ended + (ended - began) / _DISK_EFFORT
        return max(self.usage.disk_mb or 0.0, used_mb)


def disk_usage_mb(directory: Path) -> float:
    """Return what the files below *directory* occupy; links are not followed, names of one file count once."""
    blocks, seen = 0, set()
    waiting = [str(directory)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    status = entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif status.st_nlink > 1:
                        if (status.st_dev, status.st_ino) in seen:
                            continue
                        seen.add((status.st_dev, status.st_ino))
                    blocks += status.st_blocks
        except OSError:
            continue  # removed meanwhile, or locked by the payload
    return blocks * 512 / 1024**2
