"""The limits of the control groups that the pilot lives in, which containers and batch systems set; version 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
_MB = 1024**2


def memory_limit_mb(membership: str, root: Path) -> float | None:
    """Return the lowest memory limit; None: there is none.

    Args:
        membership: content of /proc/self/cgroup.
        root: where control groups are mounted.
    """
    limits: list[float] = []
    for directory, version in _directories(membership, root, controller="memory"):
        content = read(directory / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
        if content.isdecimal():
            limits.append(int(content) / _MB)
    lowest = min(limits, default=None)
    # Version 1 says "no limit" with a number that is larger than any memory.
    return None if lowest is None or lowest > 2**40 else lowest


def processor_quota(membership: str, root: Path) -> float | None:
    """Return the lowest quota of CPU time per wall-clock time, in cores; None: there is none.

    Args:
        membership: content of /proc/self/cgroup.
        root: where control groups are mounted.
    """
    quotas: list[float] = []
    for directory, version in _directories(membership, root, controller="cpu"):
        if version == 2:
            words = read(directory / "cpu.max").split()
        else:
            words = [read(directory / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period")]
        if len(words) == 2 and all(word.isdecimal() for word in words) and int(words[1]) > 0:
            quotas.append(int(words[0]) / int(words[1]))
    return min(quotas, default=None)


def read(path: Path) -> str:
    """Return a file of the system; nothing when there is none."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _directories(membership: str, root: Path, *, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield (directory, version) of the own group and those above it, whose limits hold too."""
    for line in membership.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        if controllers == "":
            top, version = root, 2
        elif controller in controllers.split(","):
            top, version = root / controller, 1
        else:
            continue
        group = top / name.strip("/")
        # In a container the own group may be what is mounted as the top.
        for place in (group, *group.parents):
            yield place, version
            if place == top:
                break
