"""Control groups: limits of the pilot's own (version 1 or 2), and a group for each payload (version 2)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MEMBERSHIP = Path("/proc/self/cgroup")
ROOT = Path("/sys/fs/cgroup")
_MOUNTS = Path("/proc/self/mountinfo")
_MB = 1024**2


def memory_limit_mb(membership: str, root: Path) -> float | None:
    """Return the lowest memory limit; None: there is none.

    Args:
        membership: content of /proc/self/cgroup.
        root: mount point of control groups.
    """
    limits: list[float] = []
    for directory, version in _directories(membership, root, controller="memory"):
        content = read(directory / ("memory.max" if version == 2 else "memory.limit_in_bytes")).strip()
        if content.isdecimal():
            limits.append(int(content) / _MB)
    lowest = min(limits, default=None)
    # Version 1 writes a very large number for "no limit".
    return None if lowest is None or lowest > 2**40 else lowest


def processor_quota(membership: str, root: Path) -> float | None:
    """Return the lowest quota of CPU time per wall-clock time, in cores; None: there is none.

    Args:
        membership: content of /proc/self/cgroup.
        root: mount point of control groups.
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


def held_memory_mb(group: Path) -> float | None:
    """Return the memory of a group of version 2 without its file cache; None: it is not counted for this group."""
    words = [line.split() for line in read(group / "memory.stat").splitlines()]
    amounts = {name: int(amount) for name, amount in words}
    # Files of tmpfs, shared memory and memfds are "shmem".
    return (amounts["anon"] + amounts["shmem"]) / _MB if {"anon", "shmem"} <= amounts.keys() else None


def killed_for_memory(membership: str, root: Path, *, group: Path | None = None) -> int:
    """Return the number of processes that the kernel has killed because memory ran out.

    Args:
        membership: content of /proc/self/cgroup.
        root: mount point of control groups.
        group: to count in instead of the own one, if the kernel counts memory for it.
    """
    groups = [(group, 2)] if group is not None else []
    for directory, version in (*groups, *_directories(membership, root, controller="memory")):
        content = read(directory / ("memory.events" if version == 2 else "memory.oom_control"))
        for line in content.splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


def make_group(name: str) -> Path | None:
    """Create a control group of version 2 below the own one; None: not permitted.

    Args:
        name: of the new group.
    """
    for line in read(MEMBERSHIP).splitlines():
        if not line.startswith("0::/"):
            continue
        mounted = _mount_of_version_2()
        if mounted is None:
            return None
        group = mounted / line[len("0::/") :] / name
        try:
            group.mkdir()
        except OSError:
            return None
        return group
    return None


def add_to(group: Path, pid: int) -> bool:
    """Move a process into a group; return whether that succeeded."""
    try:
        (group / "cgroup.procs").write_text(f"{pid}\n")
    except OSError:
        return False
    return True


def limit_tasks(group: Path, most: int) -> None:
    """Limit the processes and threads of a group, if the kernel counts them for it."""
    with suppress(OSError):  # no such file: it does not
        (group / "pids.max").write_text(f"{most}\n")


def kill(group: Path) -> None:
    """Send SIGKILL to every process of a group and of its subgroups, whatever its user."""
    try:
        (group / "cgroup.kill").write_text("1\n")
    except OSError:  # before Linux 5.14 there is no such file
        for directory in (group, *group.glob("**/")):
            for pid in read(directory / "cgroup.procs").split():
                with suppress(OSError):
                    os.kill(int(pid), signal.SIGKILL)


def is_populated(group: Path) -> bool:
    """Return whether a group or one of its subgroups contains a process."""
    return "populated 1" in read(group / "cgroup.events")


def remove(group: Path) -> None:
    """Remove a group with its subgroups; groups with processes stay."""
    for directory in sorted((group, *group.glob("**/")), reverse=True):
        with suppress(OSError):
            directory.rmdir()


def _mount_of_version_2() -> Path | None:
    for line in read(_MOUNTS).splitlines():
        mounted, _, kind = line.partition(" - ")
        if kind.startswith("cgroup2 ") and mounted.split()[3] == "/":
            return Path(mounted.split()[4])
    return None


def read(path: Path) -> str:
    """Return the content of a file; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _directories(membership: str, root: Path, *, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield (directory, version) of the own group and of its parents, whose limits apply too."""
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
        # In a container the own group may be mounted as the top.
        for place in (group, *group.parents):
            yield place, version
            if place == top:
                break
