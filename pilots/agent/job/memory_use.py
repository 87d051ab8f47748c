"""The memory of a payload: that of its processes, and files in memory, of which each page counts once.

Files in memory are those of tmpfs (/dev/shm and, where a site has them in memory, /tmp or the work directory), System V
shared memory, and deleted files and memfds that a process holds open. What processes map of them is in their
proportional set sizes (PSS); the rest is added.

A script without imports of the pilot, because the user helper runs it too, as the payload's user.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

_MB = 1024**2
#: Prefix of the names of all directories of jobs.
WORKSPACE = "wms-job-"
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - nothing is created there
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})
#: Seconds for searching files in memory, and levels of directories that are searched.
_WALK_S, _DEEPEST = 1.0, 100
#: In the place of the device of a System V segment, whose id is then the inode.
_SEGMENT = -1
_SEGMENTS = "/proc/sysvipc/shm"
#: One mapping in /proc/<pid>/smaps: device, inode, path, and PSS in kB.
_MAPPING = re.compile(
    rb"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)\n(?:[A-Z].*\n)*?Pss: +(\d+) kB", re.MULTILINE
)

#: Device and inode of a file, or device and 0 of a whole file system.
_Key = tuple[int, int]


class Memory(NamedTuple):
    """The memory of a payload."""

    total_mb: float
    #: Of files in memory, mapped or not.
    files_mb: float = 0.0


class PayloadScope(NamedTuple):
    """The files and segments in memory that count as a payload's, beside file systems that only its processes see."""

    #: Directories of the job: everything in them.
    tops: Sequence[str] = ()
    #: User whose files and System V segments are the payload's; -1: none.
    uid: int = -1
    #: Seconds since the epoch; the user's older files and segments are not the payload's.
    since: float = 0.0
    #: Descriptors of /dev/shm of the payload's own mount namespace, and of /proc/sysvipc/shm of its own IPC namespace;
    #: -1: it has none.
    shared_memory: int = -1
    segments: int = -1


def memory_of(resident_mb: Mapping[int, float], scope: PayloadScope) -> Memory:
    """Return the memory of a payload.

    Args:
        resident_mb: {process id: resident memory} of its processes.
        scope: what else belongs to it.
    """
    held_mb = _held_mb(list(resident_mb), scope)
    if len(resident_mb) <= 1 and not held_mb:
        return Memory(sum(resident_mb.values()))
    own_mb, unknown_mb, mapped_mb = 0.0, 0.0, dict.fromkeys(held_mb, 0.0)
    for pid, process_mb in resident_mb.items():
        sizes = _sizes_of(pid)
        if sizes is None:  # it cannot be inspected: all that it shares may be files counted here
            own_mb, unknown_mb = own_mb + process_mb, unknown_mb + _resident_shared_mb(pid)
            continue
        own_mb += sizes[0]
        for key, part_mb in _mapped_mb(pid, held_mb) if held_mb and sizes[1] != 0 else ():
            mapped_mb[key] += part_mb
    rest_mb = sum(max(0.0, size_mb - mapped_mb[key]) for key, size_mb in held_mb.items())
    return Memory(own_mb + max(0.0, rest_mb - unknown_mb), sum(held_mb.values()))


# ---- processes


def _sizes_of(pid: int) -> tuple[float, float | None] | None:
    """Return PSS and, if the kernel says it, its part in shared memory; None: the process cannot be inspected.

    Shared pages are divided among the processes that map them. Resident sizes would count the pages of ten forked
    processes ten times.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            lines = [line.split() for line in file]
    except ProcessLookupError:
        return 0.0, 0.0  # it has ended
    except FileNotFoundError:  # so it has, or the kernel is older than 4.14
        return None if os.path.exists(f"/proc/{pid}") else (0.0, 0.0)
    except OSError:
        return None
    sizes = {words[0]: int(words[1]) / 1024 for words in lines if words[0] in ("Pss:", "Pss_Shmem:")}
    return sizes.get("Pss:", 0.0), sizes.get("Pss_Shmem:")


def _resident_shared_mb(pid: int) -> float:
    with suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return next((int(line.split()[1]) / 1024 for line in file if line.startswith("RssShmem:")), 0.0)
    return 0.0


def _mapped_mb(pid: int, held_mb: Mapping[_Key, float]) -> Iterator[tuple[_Key, float]]:
    """Yield (key, PSS) of what a process maps of held files."""
    with suppress(OSError), open(f"/proc/{pid}/smaps", "rb") as file:
        for major, minor, inode, path, pss_kb in _MAPPING.findall(file.read()):
            device = _SEGMENT if path.startswith(b"/SYSV") else os.makedev(int(major, 16), int(minor, 16))
            for key in {(device, int(inode)), (device, 0)}:  # the first segment's id is 0
                if key in held_mb:
                    yield key, int(pss_kb) / 1024


# ---- files


def _held_mb(pids: Sequence[int], scope: PayloadScope) -> dict[_Key, float]:
    """Return {file or file system in memory: its size} of all that the payload holds and that is not empty."""
    places = _in_memory(_mounts_of("self"))
    devices = set(places.values())
    held_mb = dict(_only_seen_by(pids, devices))
    if scope.shared_memory >= 0:
        held_mb[os.fstat(scope.shared_memory).st_dev, 0] = _used_mb(scope.shared_memory)
    statuses = [*_files_of_user(places, scope)]
    for top in scope.tops:
        with suppress(OSError):
            if (device := os.stat(top).st_dev) in devices:
                statuses += _walk(top, device)
    deleted_in = devices | _device_of_memfds()
    for pid in pids:
        statuses += [each for each in _deleted_open_files(pid) if each.st_dev in deleted_in]
    held_mb.update({(status.st_dev, status.st_ino): status.st_blocks * 512 / _MB for status in statuses})
    held_mb.update(_segments_mb(scope))
    return {key: size_mb for key, size_mb in held_mb.items() if size_mb > 0}


def _mounts_of(process: object) -> list[tuple[str, int, str]]:
    """Return (mount point, device, type of file system) of all that is mounted for a process."""
    mounts = []
    with suppress(OSError), open(f"/proc/{process}/mountinfo", "rb") as file:
        for line in file:
            mount, _, kind = line.partition(b" - ")
            major, minor = mount.split()[2].split(b":")
            path = re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), mount.split()[4])
            mounts.append((os.fsdecode(path), os.makedev(int(major), int(minor)), kind.split()[0].decode()))
    return mounts


def _in_memory(mounts: Iterable[tuple[str, int, str]]) -> dict[str, int]:
    return {place: device for place, device, kind in mounts if kind in _IN_MEMORY}


def _only_seen_by(pids: Sequence[int], devices: set[int]) -> Iterator[tuple[_Key, float]]:
    """Yield (key, size) of the file systems in memory that only mount namespaces of the payload have."""
    seen: set[str] = set()
    for pid in pids:
        with suppress(OSError):
            namespace = os.readlink(f"/proc/{pid}/ns/mnt")
            if namespace in seen:
                continue
            seen.add(namespace)
            mounts = _mounts_of(pid)
            # A file system in user space may never answer.
            unsafe = tuple(place.rstrip("/") + "/" for place, _, kind in mounts if kind.startswith("fuse"))
            for place, device in _in_memory(mounts).items():
                if device not in devices and not place.startswith(unsafe):
                    with suppress(OSError):
                        inside = os.open(f"/proc/{pid}/root{place}", os.O_RDONLY | os.O_DIRECTORY)
                        try:
                            if os.fstat(inside).st_dev == device:  # nothing else is mounted above it
                                yield (device, 0), _used_mb(inside)
                        finally:
                            os.close(inside)


def _used_mb(directory: int) -> float:
    """Return the size of all files of a file system, by a descriptor of its directory."""
    system = os.fstatvfs(directory)
    if system.f_blocks:
        return (system.f_blocks - system.f_bfree) * system.f_frsize / _MB
    device = os.fstat(directory).st_dev  # it has no limit, so the kernel does not say
    return sum(status.st_blocks for status in _walk(f"/proc/self/fd/{directory}/.", device)) * 512 / _MB


def _files_of_user(mounted: Mapping[str, int], scope: PayloadScope) -> Iterator[os.stat_result]:
    """Yield the status of the user's files in memory."""
    # A diskless node has its whole system in memory.
    places = {os.path.realpath(place) for place in (*_TEMPORARY, *mounted)} - {"/"}
    # Another pilot of this account has jobs of its own.
    skip = (WORKSPACE,) if scope.since else ()
    for place in places if scope.uid >= 0 else ():
        with suppress(OSError):
            if (device := os.stat(place).st_dev) in mounted.values():
                found = _walk(place, device, skip=skip)
                yield from (each for each in found if _is_of(scope, each.st_uid, each.st_ctime))


def _is_of(scope: PayloadScope, uid: int, changed: float) -> bool:
    return uid == scope.uid and changed >= scope.since


def _walk(top: str, device: int, *, skip: tuple[str, ...] = ()) -> Iterator[os.stat_result]:
    """Yield the status of all below a directory on the same device, without directories with a prefix in *skip*."""
    give_up_at = time.monotonic() + _WALK_S
    for path, directories, names, descriptor in os.fwalk(top):
        deeper = path.count("/") - top.count("/") < _DEEPEST and time.monotonic() < give_up_at
        found = [(name, _status_of(name, descriptor)) for name in (*directories, *names)]
        on_device = {name: status for name, status in found if status is not None and status.st_dev == device}
        yield from on_device.values()
        directories[:] = [name for name in directories if deeper and name in on_device and not name.startswith(skip)]


def _status_of(name: str, directory: int) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    return None


def _deleted_open_files(pid: int) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                status = os.stat(f"/proc/{pid}/fd/{name}")
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                    yield status


def _device_of_memfds() -> set[int]:
    """Return the device that the kernel keeps memfds on; empty if it has none."""
    with suppress(OSError, AttributeError):
        descriptor = os.memfd_create("wms")
        try:
            return {os.fstat(descriptor).st_dev}
        finally:
            os.close(descriptor)
    return set()


def _segments_mb(scope: PayloadScope) -> Iterator[tuple[_Key, float]]:
    """Yield (key, resident size) of System V segments, which outlive the processes that made them."""
    is_own = scope.segments >= 0
    with suppress(OSError, ValueError, KeyError):
        with open(scope.segments if is_own else _SEGMENTS, encoding="ascii", closefd=not is_own) as file:
            file.seek(0)
            header, *lines = file.read().splitlines()
        for line in lines:
            fields = dict(zip(header.split(), map(int, line.split())))
            if is_own or _is_of(scope, fields["uid"], fields["ctime"]):
                yield (_SEGMENT, fields["shmid"]), fields["rss"] / _MB
