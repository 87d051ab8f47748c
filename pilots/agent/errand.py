"""Small things done as the payload's own user, where that is another than the pilot's (see identity.py).

Started by sudo as a script of its own, imports nothing of the pilot. Standard input is a socket to the pilot, which
sends one byte with descriptors of directories, so that no path needs to be open to this user, then one line of JSON.
The answer is one byte with the descriptors that were asked for, then one line of JSON, with ``error`` when it could not
be done.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

Record = dict[str, object]
#: What a payload has: its directory, and one for temporary files.
DIRECTORIES = ("job", "tmp")
MOST_DESCRIPTORS = 2


def main() -> int:
    """Run one errand."""
    wire = socket.socket(fileno=0)
    _, descriptors, _, _ = socket.recv_fds(wire, 1, MOST_DESCRIPTORS)
    with wire.makefile("rb") as lines:
        request = json.loads(lines.readline())
    answer: Record = {}
    opened: Sequence[int] = ()
    try:
        if request["uid"] != os.getuid() or request["uid"] != os.geteuid():
            raise PermissionError(f"sudo made it user {os.getuid()} and not {request['uid']}")
        answer, opened = ERRANDS[request["errand"]](request, descriptors)
    except (OSError, shutil.Error) as error:
        answer = {"error": getattr(error, "strerror", None) or str(error)}
    socket.send_fds(wire, [b"F"], list(opened))
    wire.sendall(json.dumps(answer).encode() + b"\n")
    return 0


def _enter(request: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    """Make the payload's directories, copy what the pilot put aside for it, and open the files of its output."""
    area, given = descriptors
    os.fchdir(area)
    os.umask(0o077)
    for name in DIRECTORIES:
        os.mkdir(name)  # noqa: PTH102 - no need of another module
    shutil.copytree(f"/proc/self/fd/{given}", "job", symlinks=True, dirs_exist_ok=True)
    os.chmod("job", 0o700)  # noqa: PTH101 - the same
    names = request["streams"]
    assert isinstance(names, list)  # noqa: S101 - for the type checker
    return {}, [open_stream(f"job/{name}") for name in names]


def open_stream(path: str) -> int:
    """Open a file of standard output or error, empty, with the directories above it."""
    # Appending: two writers to one file then never overwrite each other, and a file that was emptied stays small.
    flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - no need of another module
    return os.open(path, flags, 0o644)


def _open_up(_: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    """Let everybody read what the payload left; only the pilot can reach it."""
    os.fchdir(descriptors[0])
    for path, status in _walk(DIRECTORIES):
        if stat.S_ISDIR(status.st_mode):
            os.chmod(path, stat.S_IMODE(status.st_mode) | 0o755)  # noqa: PTH101, S103 - only the pilot passes
        elif stat.S_ISREG(status.st_mode):
            os.chmod(path, stat.S_IMODE(status.st_mode) | 0o444)  # noqa: PTH101 - the same
    return {}, ()


def _remove(_: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    os.fchdir(descriptors[0])
    for path, status in _walk(DIRECTORIES):
        if stat.S_ISDIR(status.st_mode):
            os.chmod(path, 0o700)  # noqa: PTH101 - no need of another module
    for name in DIRECTORIES:
        shutil.rmtree(name, ignore_errors=True)
    return {}, ()


def _disk(_: Record, descriptors: Sequence[int]) -> tuple[Record, Sequence[int]]:
    os.fchdir(descriptors[0])
    return {"disk_mb": disk_usage_mb(*DIRECTORIES)}, ()


def _memory(request: Record, _: Sequence[int]) -> tuple[Record, Sequence[int]]:
    return {"memory_mb": {pid: own_memory_mb(pid) for pid in _pids(request)}}, ()


def _kill(request: Record, _: Sequence[int]) -> tuple[Record, Sequence[int]]:
    for pid in _pids(request):
        try:
            os.kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            continue
    return {}, ()


def _pids(request: Record) -> Iterable[int]:
    pids = request["pids"]
    assert isinstance(pids, list)  # noqa: S101 - for the type checker
    return [int(pid) for pid in pids]


def own_memory_mb(pid: int) -> float | None:
    """Return the memory of a process, with its part of what it shares with others (PSS); None: it cannot be read.

    Of ten processes that were forked from one each has all of its pages: added up, what is resident of them is ten
    times what they use.
    """
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:  # noqa: PTH123 - no need of another module
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("Pss:")), 0.0)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it has ended since
    except OSError:
        return None


def disk_usage_mb(*directories: str) -> float:
    """Return what all below these directories occupies; links are not followed, names of one file count once."""
    blocks, seen = 0, set()
    for _, status in _walk(directories):
        if not stat.S_ISDIR(status.st_mode) and status.st_nlink > 1:
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        blocks += status.st_blocks
    return blocks * 512 / 1024**2


def _walk(tops: Iterable[str]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield all that is below, each directory before its content is read, so that it can be unlocked first."""
    waiting = list(tops)
    while waiting:
        path = waiting.pop()
        try:
            status = os.lstat(path)
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                waiting += [f"{path}/{name}" for name in os.listdir(path)]  # noqa: PTH208 - no need of another module
        except OSError:
            continue  # removed meanwhile, or locked by the payload


ERRANDS: dict[str, Callable[[Record, Sequence[int]], tuple[Record, Sequence[int]]]] = {
    "enter": _enter,
    "open_up": _open_up,
    "remove": _remove,
    "disk": _disk,
    "memory": _memory,
    "kill": _kill,
}


if __name__ == "__main__":
    sys.exit(main())
