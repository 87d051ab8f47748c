"""System calls of Linux that the standard library lacks: prctl(2), fallocate(2), System V IPC."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pilots.agent.base import log

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_IPC_RMID = 0
_FALLOC_FL_KEEP_SIZE, _FALLOC_FL_PUNCH_HOLE = 1, 2


def hide_memory() -> None:
    """Prevent other processes of the same user from reading this one's memory, environment and descriptors.

    A payload could otherwise read tokens from ``/proc/<pid>/mem`` (PIL §3.1). Root still can.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none is lost."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> bool:
    """Have the kernel kill this process when its *parent* ends; return False if it has ended already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == parent


@contextmanager
def notified_of_the_end_of(parent: int, number: signal.Signals) -> Iterator[None]:
    """Within ``with``, receive the signal *number* at the end of the *parent*, instead of SIGKILL (die_with)."""
    _prctl(_PR_SET_PDEATHSIG, number)
    try:
        if os.getppid() != parent:
            os.kill(os.getpid(), number)
        yield
    finally:
        if not die_with(parent):
            os._exit(1)


def remove_ipc_of(uid: int) -> None:
    """Remove the message queues, semaphores and shared memory (System V) of a user.

    A process of its own becomes the user: in a container root may lack CAP_SYS_ADMIN, and then remove only its own.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.setresuid(uid, uid, uid)
            _remove_ipc_of(uid)
        finally:
            os._exit(0)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _remove_ipc_of(uid: int) -> None:
    library = ctypes.CDLL(None)
    for kind, remove in (("msg", library.msgctl), ("sem", library.semctl), ("shm", library.shmctl)):
        with suppress(OSError, ValueError, KeyError, IndexError):
            header, *lines = Path("/proc/sysvipc", kind).read_text().splitlines()
            for line in lines:
                fields = dict(zip(header.split(), line.split()))
                if int(fields["uid"]) == uid:
                    number = fields["msqid" if kind == "msg" else f"{kind}id"]
                    remove(int(number), *([0] if kind == "sem" else []), _IPC_RMID, None)


def give_back(descriptor: int, *, before: int) -> None:
    """Free the memory or disk space of the bytes of a file up to *before*; ignored where it is not supported."""
    mode = _FALLOC_FL_KEEP_SIZE | _FALLOC_FL_PUNCH_HOLE
    library = ctypes.CDLL(None)
    for name in ("fallocate64", "fallocate"):  # fallocate64 is missing where all offsets have 64 bits
        call = getattr(library, name, None)
        if call is not None:
            call(descriptor, mode, ctypes.c_int64(0), ctypes.c_int64(before))
            return


def _prctl(option: int, value: int) -> None:
    try:
        failed = ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0
    except (OSError, AttributeError):
        failed = True
    if failed:
        log.event("agent.prctl_failed", option=option)
