"""The supervisor: the process between the pilot and one payload. A script without imports of the pilot.

It adopts every process that the payload leaves behind, in whatever session or process group. When the payload ends, or
the pilot does (even by SIGKILL), it kills all of them, so that nothing of a job outlives its lease.

Standard input is a socket to the pilot. The pilot sends one byte with the descriptors of standard output and error, one
line of JSON (uid, is_other: whether it is not the pilot's, is_exclusive: whether only this payload has it, executable,
arguments, environment, directory, max_cpu_s, max_tasks), then single letters: G (start the payload), T (SIGTERM to all)
and K (SIGKILL to all). The
supervisor answers with two lines of JSON:
``{"supervisor": pid}`` at its start, with descriptors of its own /dev/shm and /proc/sysvipc/shm, and when no process is
left ``{"status": as of waitpid, "cpu_s": …, "max_memory_mb": …}``, or ``{"error": errno}`` if the payload could not be
started. Where sudo gives the payload another user (identity.py), the supervisor has the same user, because the pilot
cannot signal that user's processes. If the pilot is root, the supervisor is root too, and the payload cannot signal it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import resource
import select
import signal
import socket
import sys
from contextlib import suppress

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
#: Numbers of capabilities to drop; the kernel has 41 today and refuses the others.
_MOST_CAPABILITIES = 64
#: keyctl(2) by machine: the C library has no function for it.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING, _CLEAR, _GET_PERSISTENT = 1, 7, 22
_SESSION_KEYRING, _USER_KEYRING, _USER_SESSION_KEYRING = -3, -4, -5
#: Errors of keyctl(2) where it is not available, to the payload neither.
_NO_KEYS = frozenset({errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP})
#: Seconds between two searches for new processes while all are being killed.
_AGAIN_S = 0.02
_SHELL = "/bin/sh"
_SHARED_MEMORY = ("/dev/shm", "/proc/sysvipc/shm")  # noqa: S108 - nothing is created there
_PART_BYTES = 64 * 1024
#: First bytes of a file by which a script is told from other files.
_HEAD_BYTES = 256


def main() -> int:
    """Run one payload to its end."""
    wire = socket.socket(fileno=0)
    _, outputs, _, _ = socket.recv_fds(wire, 1, 2)
    request = json.loads(_line(wire))
    if _has_namespaces() and request["uid"] == 0:
        request["uid"] = os.getuid()  # the root of a user namespace has another id in a nested one
    if request["uid"] != os.getuid() and os.getuid() != 0:
        sys.exit(f"the payload would run as user {os.getuid()} and not as {request['uid']}")
    _become_supervisor()
    _announce(wire)
    # The pilot first puts this process into a control group.
    if wire.recv(1) != b"G":
        return 1
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    payload, failed_with = _start(request, outputs)
    status, pilot_lives = _watch(wire, reading, payload)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    answer: dict[str, object] = {
        "status": status,
        "cpu_s": used.ru_utime + used.ru_stime,
        "max_memory_mb": used.ru_maxrss / 1024,
    }
    if failed_with:
        answer = {"error": failed_with}
    if pilot_lives:
        # The pilot may have ended meanwhile.
        with suppress(OSError):
            wire.sendall(json.dumps(answer).encode() + b"\n")
    return 0


def _announce(wire: socket.socket) -> None:
    """Send the first answer."""
    line = json.dumps({"supervisor": int(sys.argv[1]) if _has_namespaces() else os.getpid()}).encode() + b"\n"
    opened: list[int] = []
    with suppress(OSError):
        opened += (os.open(path, os.O_RDONLY) for path in _SHARED_MEMORY)
    socket.send_fds(wire, [line], opened)
    for descriptor in opened:
        os.close(descriptor)


def _has_namespaces() -> bool:
    """Return whether the payload has namespaces; the first argument is then the process id outside."""
    return len(sys.argv) > 1


def _line(wire: socket.socket) -> bytes:
    """Return the first line; what follows it is left to be read."""
    line = b""
    while not line.endswith(b"\n"):
        waiting = wire.recv(_PART_BYTES, socket.MSG_PEEK)
        if not waiting:
            sys.exit(1)
        line += wire.recv(waiting.find(b"\n") + 1 or len(waiting))
    return line


def _become_supervisor() -> None:
    # Signals to the pilot's process group do not reach the payload; the pilot forwards them.
    with suppress(PermissionError):
        os.setsid()
    try:
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0)
        # A payload of the same user must not take over this process and answer the pilot.
        library.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
    except (OSError, AttributeError):
        pass  # not Linux: processes that leave the payload's session are not found


def _start(request: dict[str, object], outputs: list[int]) -> tuple[int, int]:
    """Start the payload; return (process id, errno or 0)."""
    for descriptor in outputs:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - no name in the standard library
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _become_payload(request, outputs)
        except (OSError, ValueError) as error:  # ValueError: an argument contains a NUL
            os.write(writing, str(getattr(error, "errno", None) or errno.EINVAL).encode())
        finally:
            os._exit(127)
    os.close(writing)
    for descriptor in outputs:
        os.close(descriptor)
    failed_with = os.read(reading, 16)  # empty after a successful exec
    os.close(reading)
    return pid, int(failed_with or 0)


def _become_payload(request: dict[str, object], outputs: list[int]) -> None:
    os.setsid()
    if request["uid"] != os.getuid():
        _give_up_root(request["uid"])
        _forget_keys(exclusive=True)
    else:
        # A set-user-id program that an earlier payload left would give this one its account.
        if _has_namespaces() or os.getuid() == 0 or request["is_other"]:
            _gain_nothing()
        _forget_keys(exclusive=False)
    _die_with_supervisor()
    signal.set_wakeup_fd(-1)
    for number in (
        signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP,
    ):  # fmt: skip
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    # As for a batch job; the pilot's own, which may be 077, is for its own files.
    os.umask(0o022)
    os.chdir(str(request["directory"]))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(outputs[0], 1)
    os.dup2(outputs[-1], 2)
    _limit(request["max_cpu_s"])
    if request["is_exclusive"] or _has_counts_of_its_own():
        _limit_tasks(request["max_tasks"])
    executable, arguments, environment = str(request["executable"]), request["arguments"], request["environment"]
    if not (isinstance(arguments, list) and isinstance(environment, dict)):
        raise TypeError("the request has no arguments or no environment")
    try:
        os.execve(executable, arguments, environment)  # noqa: S606 - running the user's program is the purpose
    except OSError as error:
        if error.errno != errno.ENOEXEC or not _is_script(executable):
            raise
        # Shells and execvp(3) run it with the shell.
        os.execve(_SHELL, [_SHELL, executable, *arguments[1:]], environment)  # noqa: S606 - as above


def _is_script(executable: str) -> bool:
    """Return whether a file is a script that names no interpreter; a shell must not read other files."""
    with open(executable, "rb") as file:
        head = file.read(_HEAD_BYTES)
    named = head.startswith(b"#!") and head[2:].partition(b"\n")[0].strip(b" \t")
    return bool(head) and b"\0" not in head and not named


def _give_up_root(uid: object) -> None:
    """Become a user without groups and capabilities, for good."""
    if not isinstance(uid, int) or uid <= 0:
        raise PermissionError(errno.EPERM, "a payload that has a user id of its own is never root")
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    _gain_nothing()


def _gain_nothing() -> None:
    """Drop the capability bounding set and set no_new_privs, so that executed programs gain no rights, even as root."""
    for capability in range(_MOST_CAPABILITIES):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0)
    if ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), 0, 0, 0) != 0:
        raise PermissionError(errno.EPERM, "the payload could become another user")


def _forget_keys(*, exclusive: bool) -> None:
    """Drop the keys of the pilot's session and, if the user id is *exclusive*, all keys of the user id.

    The kernel keeps keys of a user id, Kerberos tickets for example, after its last process has ended.

    Raises:
        OSError: an earlier payload with this user id has locked them.
    """
    _keyctl(_JOIN_SESSION_KEYRING, 0)
    if exclusive:
        persistent = _keyctl(_GET_PERSISTENT, -1, _SESSION_KEYRING)
        for keyring in (_USER_KEYRING, _USER_SESSION_KEYRING, *((persistent,) if persistent > 0 else ())):
            _keyctl(_CLEAR, keyring)


def _keyctl(operation: int, *arguments: int) -> int:
    number = _KEYCTL.get(os.uname().machine)
    if number is None:
        return 0
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    result = int(library.syscall(ctypes.c_long(number), ctypes.c_long(operation), *map(ctypes.c_long, arguments)))
    if result < 0 and ctypes.get_errno() not in _NO_KEYS:
        raise OSError(ctypes.get_errno(), "its keys cannot be removed")
    return result


def _die_with_supervisor() -> None:
    """Have the kernel kill the payload's first process when the supervisor, its parent, ends."""
    parent = os.getppid()
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(127)


def _limit(max_cpu_s: object) -> None:
    """Set the kernel's limits of CPU time and core dumps; the batch system's other limits stay."""
    # Core dumps are large, and are removed with the job.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if isinstance(max_cpu_s, int):
        most_s = resource.getrlimit(resource.RLIMIT_CPU)[1]
        soft_s = max_cpu_s if most_s == resource.RLIM_INFINITY else min(max_cpu_s, most_s)
        resource.setrlimit(resource.RLIMIT_CPU, (soft_s, most_s))


def _has_counts_of_its_own() -> bool:
    """Return whether the kernel counts the tasks of the payload apart: since Linux 5.14 by user namespaces."""
    version = tuple(int(number) for number in os.uname().release.split("-")[0].split(".")[:2])
    return _has_namespaces() and version >= (5, 14)


def _limit_tasks(max_tasks: object) -> None:
    """Limit processes and threads; the kernel counts all of a user, so that the user must be the payload's own."""
    if isinstance(max_tasks, int):
        hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = max_tasks if hard == resource.RLIM_INFINITY else min(max_tasks, hard)
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def _watch(wire: socket.socket, woken: int, payload: int) -> tuple[int, bool]:
    """Wait until no process is left; return the payload's status and whether the pilot still runs."""
    status, killing, pilot_lives = 0, False, True
    while True:
        gone = _reap()
        if gone is None:
            return status, pilot_lives
        if payload in gone:
            status, killing = gone[payload], True
        if killing:
            _signal_all(signal.SIGKILL)
        watched = [woken, wire.fileno()] if pilot_lives else [woken]
        readable, _, _ = select.select(watched, [], [], _AGAIN_S if killing else None)
        if woken in readable:
            _drain(woken)
        if wire.fileno() in readable:
            letters = _letters_on(wire)
            pilot_lives = letters != b""
            killing = killing or not pilot_lives or b"K" in letters
            if b"T" in letters:
                _signal_all(signal.SIGTERM)


def _letters_on(wire: socket.socket) -> bytes:
    """Return the letters that the pilot has sent; empty: it has ended."""
    try:
        return wire.recv(64)
    except ConnectionError:
        return b""


def _drain(pipe: int) -> None:
    try:
        while os.read(pipe, 4096):
            pass
    except BlockingIOError:
        pass


def _reap() -> dict[int, int] | None:
    """Return {process id: status} of the children that have ended; None: no child is left."""
    gone: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return gone or None
        if pid == 0:
            return gone
        gone[pid] = status


def _signal_all(number: int) -> None:
    for pid in _descendants():
        try:
            os.kill(pid, number)
            if number == signal.SIGTERM:
                os.kill(pid, signal.SIGCONT)  # a stopped process does not handle SIGTERM
        except (ProcessLookupError, PermissionError):
            continue


def _descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(name))
    pids_below: list[int] = []
    level = children.get(os.getpid(), [])
    while level:
        pids_below += level
        level = [child for pid in level for child in children.get(pid, [])]
    return pids_below


if __name__ == "__main__":
    sys.exit(main())
