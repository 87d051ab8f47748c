"""The user helper: single operations done as the payload's user, if that is not the pilot's (see identity.py).

A script without imports of the pilot, started by sudo or by a pilot that is root. Standard input is a socket to the
pilot, which sends one byte with descriptors of directories, so that this user needs no access to their paths, then one
line of JSON. The answer is one byte with the descriptors of opened files, then one line of JSON, with ``error`` if the
operation failed, or ``stream_error`` if it is the job's own standard output or error that cannot be opened.
"""

from __future__ import annotations

import errno
import json
import os
import runpy
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

Record = dict[str, Any]
#: Directories of a payload: the job's, the one for temporary files, and the one of the container runtime.
DIRECTORIES = ("job", "tmp", "pilot")
MOST_DESCRIPTORS = 2
#: Bytes of a path from which on descriptors are used: the kernel's limits are 4096, and 255 for one name.
_LONG_PATH = 3800
#: Seconds for measuring disk use: a million files of a local disk, or some thousands of a slow file server.
_WALK_S = 5.0


class StreamError(Exception):
    """A file for standard output or error cannot be opened; the text is one sentence."""


def main() -> int:
    """Run one operation."""
    wire = socket.socket(fileno=0)
    _, descriptors, _, _ = socket.recv_fds(wire, 1, MOST_DESCRIPTORS)
    with wire.makefile("rb") as lines:
        request = json.loads(lines.readline())
    answer: Record = {}
    opened: Sequence[int] = ()
    try:
        if os.getuid() == 0:
            _become(request["uid"])
        if request["uid"] != os.getuid() or request["uid"] != os.geteuid():
            raise PermissionError(f"sudo made it user {os.getuid()} and not {request['uid']}")
        answer, opened = OPERATIONS[request["operation"]](request, descriptors)
    except StreamError as error:
        answer = {"stream_error": str(error)}
    except (OSError, shutil.Error) as error:
        answer = {"error": getattr(error, "strerror", None) or str(error)}
    socket.send_fds(wire, [b"F"], list(opened))
    wire.sendall(json.dumps(answer).encode() + b"\n")
    return 0


def _become(uid: int) -> None:
    """Become a user without groups and capabilities, for good."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def _enter(request: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    """Make the payload's directories, copy the input that the pilot put aside, and open the files of its output."""
    area, aside = descriptors
    os.fchdir(area)
    os.umask(0o077)
    for name in DIRECTORIES:
        os.mkdir(name)
    shutil.copytree(f"/proc/self/fd/{aside}", "job", symlinks=True, dirs_exist_ok=True)
    os.chmod("job", 0o700)
    return _open(request, [area])


def _open(request: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    os.fchdir(descriptors[0])
    return {}, [open_stream("job", name) for name in request["streams"]]


def open_stream(directory: str, name: str) -> int:
    """Open an empty file for standard output or error, and create the directories above it.

    Raises:
        StreamError: the job's name or its own files do not allow it.
    """
    # O_APPEND: two writers never overwrite each other, and a truncated file stays small.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    path = os.path.join(directory, name)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return os.open(path, flags, 0o644)
    except OSError as error:
        reason = "it is a symbolic link" if error.errno == errno.ELOOP else error.strerror
        raise StreamError(f"Output cannot be written to {name}: {reason}") from error


def _open_up(_: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    """Make all files of the payload readable for everybody; only the pilot can reach them."""
    os.fchdir(descriptors[0])
    for name in DIRECTORIES:
        open_up(name, directories=0o755, files=0o444)
    return {}, ()


def open_up(top: str, *, directories: int, files: int) -> None:
    """Add these permissions, which the ended payload may have removed, to all files and directories below *top*."""
    for path, status in walk([top]):
        more = directories if stat.S_ISDIR(status.st_mode) else files if stat.S_ISREG(status.st_mode) else 0
        mode = stat.S_IMODE(status.st_mode)
        if mode | more != mode:
            with suppress(OSError):
                os.chmod(path, mode | more)


def _remove(_: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    os.fchdir(descriptors[0])
    for name in DIRECTORIES:
        remove_tree(name)
    return {}, ()


def remove_tree(top: str) -> None:
    """Remove a directory and all below it, also without permissions; what cannot be removed stays.

    Directories may be deeper than a path or a recursion can be: each is moved up before it is emptied. Everything goes
    through descriptors, because others may meanwhile replace a directory by a link, which root must not follow.
    """
    above = _opened_unlocked(top, None)
    if above is None:
        return
    prefix, numbers = os.urandom(8).hex(), count()
    moved = _emptied(above, top=above, prefix=prefix, numbers=numbers)
    while moved:
        name = moved.pop()
        directory = _opened_unlocked(name, above)
        if directory is None:
            with suppress(OSError):
                os.unlink(name, dir_fd=above)
            continue
        moved += _emptied(directory, top=above, prefix=prefix, numbers=numbers)
        os.close(directory)
        with suppress(OSError):
            os.rmdir(name, dir_fd=above)
    os.close(above)
    with suppress(OSError):
        os.rmdir(top)


def _emptied(directory: int, *, top: int, prefix: str, numbers: Iterator[int]) -> list[str]:
    """Remove the files in an open directory, and move its directories to *top*; return their names."""
    moved = []
    with suppress(OSError):
        for name in os.listdir(directory):
            with suppress(OSError):
                try:
                    os.unlink(name, dir_fd=directory)
                    continue
                except (IsADirectoryError, PermissionError):
                    below = _opened_unlocked(name, directory)
                if below is None:
                    continue
                os.close(below)
                higher = f"{prefix}-{next(numbers)}"
                os.rename(name, higher, src_dir_fd=directory, dst_dir_fd=top)
                moved.append(higher)
    return moved


def _opened_unlocked(name: str, above: int | None) -> int | None:
    """Open a directory that may lack permissions; None: it does not exist or cannot be opened."""
    flags = os.O_DIRECTORY | os.O_NOFOLLOW
    with suppress(OSError):
        try:
            opened = os.open(name, os.O_RDONLY | flags, dir_fd=above)
        except PermissionError:
            locked = os.open(name, os.O_PATH | flags, dir_fd=above)
            try:
                # By its descriptor: the name may meanwhile be another file's.
                os.chmod(f"/proc/self/fd/{locked}", 0o700)
                return os.open(f"/proc/self/fd/{locked}", os.O_RDONLY | os.O_DIRECTORY)
            finally:
                os.close(locked)
        with suppress(OSError):
            os.fchmod(opened, 0o700)
        return opened
    return None


def _disk(request: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    os.fchdir(descriptors[0])
    return {"disk_mb": disk_usage_mb(*DIRECTORIES) + deleted_mb(_pids(request), beside=".")}, ()


def _memory(request: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    module = runpy.run_path(os.path.join(os.path.dirname(__file__), "memory_use.py"))
    tops = [f"/proc/self/fd/{descriptors[0]}/{name}" for name in DIRECTORIES]
    scope = module["PayloadScope"](tops, request["files_of"], request["since"])
    resident_mb = {int(pid): each_mb for pid, each_mb in request["resident_mb"].items()}
    return dict(module["memory_of"](resident_mb, scope)._asdict()), ()


def _kill(request: Record, _: Sequence[int]) -> tuple[Record, Sequence[int]]:
    for pid in _pids(request):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    return {}, ()


def _end(request: Record, _: Sequence[int]) -> tuple[Record, Sequence[int]]:
    recorded = {(int(pid), int(started)) for pid, started in request["processes"]}
    return {"processes": sorted(end_processes(str(request["marker"]), recorded))}, ()


class ProcessStat(NamedTuple):
    """Fields of ``/proc/<pid>/stat`` of one living process."""

    parent: int
    session: int
    #: Start time in ticks since boot; unique together with the process id.
    started: int


def end_processes(
    marker: str, recorded: Iterable[tuple[int, int]], *, supervisors: Iterable[tuple[int, int]] = ()
) -> set[tuple[int, int]]:
    """Kill all living processes of a payload; return their (process id, start time), also of other users' processes.

    They are those in *recorded*, those whose environment contains *marker*, their descendants, and the members of the
    sessions that they have made.

    Args:
        marker: environment variable, ``NAME=value``.
        recorded: (process id, start time) of processes of the payload, some of which may have ended.
        supervisors: the same for the pilot's processes above them, whose sessions may have other members.
    """
    seen = living()
    spared = _ancestors(os.getpid(), seen)
    foreign = {seen[pid].session for pid in spared}
    exact, above = set(recorded), set(supervisors)
    ending = {
        pid
        for pid, process in seen.items()
        if pid not in spared and ((pid, process.started) in exact or _has_variable(pid, marker.encode()))
    }
    sessions = {seen[pid].session for pid in ending} - foreign
    ending |= {pid for pid, process in seen.items() if pid not in spared and (pid, process.started) in above}
    more = ending
    while more:
        ending = ending | more
        sessions |= ending.intersection([process.session for process in seen.values()]) - foreign
        more = {
            pid
            for pid, process in seen.items()
            if pid not in spared and pid not in ending and (process.parent in ending or process.session in sessions)
        }
    for pid in ending:
        _kill_exactly(pid, seen[pid].started)
    return {(pid, seen[pid].started) for pid in ending}


def living() -> dict[int, ProcessStat]:
    """Return {process id: its fields} of all visible processes that can still run."""
    names = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    seen = {pid: _fields_of(pid) for pid in names}
    return {pid: process for pid, process in seen.items() if process is not None}


def started_of(pid: int) -> int | None:
    """Return the start time of a living process, in ticks; None: there is none."""
    seen = _fields_of(pid)
    return None if seen is None else seen.started


def _fields_of(pid: int) -> ProcessStat | None:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        # A zombie with several threads: only the first one has ended.
        dead = words[0] in "ZX" and int(words[17]) <= 1
        return None if dead else ProcessStat(parent=int(words[1]), session=int(words[3]), started=int(words[19]))
    except (OSError, ValueError, IndexError):
        return None


def _ancestors(pid: int, seen: Mapping[int, ProcessStat]) -> set[int]:
    ancestors = set()
    while pid in seen and pid not in ancestors:
        ancestors.add(pid)
        pid = seen[pid].parent
    return ancestors


def _has_variable(pid: int, variable: bytes) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return variable in file.read().split(b"\0")
    except OSError:
        return False


def _kill_exactly(pid: int, started: int) -> None:
    """Kill a process, but never another one that has got its process id since."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (OSError, AttributeError):  # before Linux 5.3
        descriptor = -1
    try:
        if started_of(pid) != started:
            return
        try:
            _send(pid, descriptor, signal.SIGKILL)
        except PermissionError:
            # sudo stops itself when its command is stopped, and must be continued to see its end.
            _send(pid, descriptor, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _send(pid: int, descriptor: int, number: signal.Signals) -> None:
    if descriptor >= 0:
        signal.pidfd_send_signal(descriptor, number)
    else:
        os.kill(pid, number)


def _pids(request: Record) -> Iterable[int]:
    return [int(pid) for pid in request["pids"]]


def disk_usage_mb(*directories: str, within_s: float = _WALK_S) -> float:
    """Return the disk use of directories; links are not followed, a file with several names counts once.

    After *within_s* the sum so far is returned, because the caller must be able to stop the payload in time.
    """
    blocks, seen, give_up_at = 0, set(), time.monotonic() + within_s
    for _, status in walk(directories):
        if time.monotonic() > give_up_at:
            break
        if not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1:
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        blocks += status.st_blocks
    return blocks * 512 / 1024**2


def deleted_mb(pids: Iterable[int], *, beside: str) -> float:
    """Return the disk use of deleted files that processes keep open.

    Args:
        pids: of the processes; those that cannot be inspected count nothing.
        beside: path on the file system to measure; shared memory appears as deleted files elsewhere.
    """
    blocks: dict[int, int] = {}
    with suppress(OSError):
        device = os.stat(beside).st_dev
        for pid in pids:
            for status in _open_files(f"/proc/{pid}/fd"):
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 0 and status.st_dev == device:
                    blocks[status.st_ino] = status.st_blocks
    return sum(blocks.values()) * 512 / 1024**2


def _open_files(directory: str) -> Iterator[os.stat_result]:
    with suppress(OSError):
        for name in os.listdir(directory):
            with suppress(OSError):
                yield os.stat(f"{directory}/{name}")


def walk(tops: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (path, status) of *tops* and all below, each directory before it is read, so that it can be unlocked.

    A path that would be too long for the kernel begins with a descriptor of its directory.
    """
    waiting: list[str | int] = list(tops)
    try:
        while waiting:
            path = waiting.pop()
            if isinstance(path, int):
                os.close(path)
                continue
            try:
                status = os.lstat(path)
                yield path, status
                if stat.S_ISDIR(status.st_mode):
                    waiting += _below(path)
            except OSError:
                continue  # removed meanwhile, or without permissions
    finally:
        for entry in waiting:
            if isinstance(entry, int):
                os.close(entry)


def _below(directory: str) -> list[str | int]:
    """Return the paths of the entries of a directory, after the descriptor that they need, if any."""
    names = os.listdir(directory)
    if len(directory) < _LONG_PATH:
        return [f"{directory}/{name}" for name in names]
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
    return [descriptor, *[f"/proc/self/fd/{descriptor}/{name}" for name in names]]


OPERATIONS: dict[str, Callable[[Record, Sequence[int]], tuple[Record, Sequence[int]]]] = {
    "enter": _enter, "open": _open, "open_up": _open_up, "remove": _remove,
    "disk": _disk, "memory": _memory, "kill": _kill, "end": _end,
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
