"""Namespaces of one payload: PID, mount and IPC namespaces, and a user namespace unless it becomes another user.

A script without imports of the pilot: ``namespaces.py SPECIFICATION SCRIPT``. It creates the namespaces and waits. Its
child, the first process in them, becomes the script (payload_supervisor.py), whose first argument is its process id
outside. When that process ends, the kernel ends all others in the PID namespace. With ``-`` in the place of the script
it only tries whether namespaces can be created.

The specification is a JSON object. ``tmp``: directory of the job that replaces those in ``shared`` (/tmp and the like).
``shared_memory``: mount point of shared memory (/dev/shm); ``shared_memory_mb``: its size, 0: the kernel's default.
``hide``: files and directories that appear empty. ``show``: paths that stay visible even there. ``top``: directory of
the job, hidden but for ``read`` (read-only) and ``own`` (writable). ``home``: the pilot's home directory, read-only,
without files that only its owner may read. ``other_user``: true if the payload becomes another user than the pilot,
whom a user namespace would not have.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
import signal
import stat
import sys
from contextlib import suppress

_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER, _CLONE_NEWPID = 0x00020000, 0x08000000, 0x10000000, 0x20000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_SLAVE = 1, 2, 4, 32, 4096, 16384, 1 << 19
#: {flag of statvfs(3): flag of mount(2)} that must stay set on a mount of another user namespace.
_LOCKED = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
#: User id in the namespace of a payload whose pilot is root of a user namespace only: without capabilities.
_NOT_ROOT = 60706
_TRY = "-"
#: Entries and levels of a home directory that are searched: it may be on a slow file server.
_MOST_ENTRIES, _DEEPEST = 5000, 3
#: Files in each MB of /dev/shm.
_FILES_OF_MB = 256


def main() -> int:
    """Make the namespaces, and wait for the end of their first process."""
    specification, script = json.loads(sys.argv[1]), sys.argv[2]
    try:
        _unshare(other_user=bool(specification["other_user"]))
        _mount_all(specification)
    except OSError as error:
        sys.exit(f"the payload cannot have namespaces of its own: {error}")
    # Not earlier: the files uid_map and gid_map would belong to root.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.write(writing, f"{pid}".encode())
        os.close(writing)
        return _wait_for(pid)
    os.close(writing)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    outer_pid = os.read(reading, 32)
    os.close(reading)
    if not outer_pid:  # the parent was killed
        return 1
    try:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | 8)
    except OSError as error:
        sys.exit(f"the payload cannot have its own /proc: {error}")
    if script == _TRY:
        return 0 if [name for name in os.listdir("/proc") if name.isdecimal()] == ["1"] else 1
    sys.argv = [script, outer_pid.decode()]
    runpy.run_path(script, run_name="__main__")
    return 0


def _wait_for(pid: int) -> int:
    # A batch system signals all processes of a slot; the pilot decides what that means for the payload.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(0)
    _, status = os.waitpid(pid, 0)
    return 0 if status == 0 else 1


def _unshare(*, other_user: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    namespaces = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID
    # Without a change of user a user namespace is needed; root could unmount what hides the pilot's files.
    flags = namespaces if other_user else namespaces | _CLONE_NEWUSER
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        raise _error("unshare")
    if other_user:
        return
    # The kernel demands this order: setgroups(2) could otherwise drop a group that restricts access.
    for name, content in (
        ("setgroups", "deny"),
        ("gid_map", f"{gid or _NOT_ROOT} {gid} 1"),
        ("uid_map", f"{uid or _NOT_ROOT} {uid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(content)


def _mount_all(specification: dict[str, object]) -> None:
    hide, read, own, show = (_paths(specification, name) for name in ("hide", "read", "own", "show"))
    # Mounts made outside later, such as CVMFS repositories, appear inside, but not the reverse.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    mask = os.umask(0o022)
    # Opened before the mounts that may hide them.
    temporary = os.open(str(specification["tmp"]), os.O_PATH | os.O_DIRECTORY)
    descriptors = {path: os.open(path, os.O_PATH) for path in (*show, *read, *own)}
    directories = _paths(specification, "shared")
    shared = {os.path.realpath(directory) for directory in directories if os.path.isdir(directory)}
    for directory in sorted(shared):
        _mount(f"/proc/self/fd/{temporary}", directory, None, _MS_BIND)
    _replace_memory(str(specification["shared_memory"]), int(str(specification["shared_memory_mb"])))
    _protect_control_groups()
    for path in hide:
        if (real := os.path.realpath(path)) not in shared:
            _hide(real)
    if home := str(specification["home"]):
        _protect(os.path.realpath(home))
    for path in show:
        if not _is_there(path, descriptors[path]):
            _keep(path, descriptors[path])
    _hide(str(specification["top"]))
    for path in read:
        _keep(path, descriptors[path])
        _make_read_only(path)
    for path in own:  # a mount point, so that the payload cannot replace it
        _keep(path, descriptors[path])
    for descriptor in (temporary, *descriptors.values()):
        os.close(descriptor)
    os.umask(mask)


def _replace_memory(place: str, most_mb: int) -> None:
    """Mount shared memory and message queues of the payload's own."""
    if os.path.isdir(place):
        # One inode for each page: the kernel keeps these too in memory.
        size = f",size={most_mb}m,nr_inodes={most_mb * _FILES_OF_MB}" if most_mb else ""
        _mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777{size}")
    with suppress(OSError):  # missing in some kernels; the IPC namespace has its own queues anyway
        _mount("mqueue", "/dev/mqueue", "mqueue", _MS_NOSUID | _MS_NODEV)


def _paths(specification: dict[str, object], name: str) -> list[str]:
    paths = specification[name]
    if not isinstance(paths, list):
        raise TypeError(f"{name} is not a list")
    return [str(path) for path in paths]


def _protect_control_groups() -> None:
    """Make control groups read-only: in one that its account owns, a payload could end the pilot's processes."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split() for line in file]
    for _, place, kind, *_ in mounts:
        if kind in {"cgroup", "cgroup2"}:
            with suppress(OSError):  # hidden by another mount, or its name has a blank
                _mount(place, place, None, _MS_BIND)
                _make_read_only(place)


def _hide(path: str) -> None:
    """Mount something empty over a file or directory."""
    if path == "/":
        return
    try:
        is_directory = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return  # it does not exist, or is hidden already
    if is_directory:
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=1m")
    else:
        _mount(os.devnull, path, None, _MS_BIND)


def _protect(home: str) -> None:
    """Make a home directory read-only and hide what only its owner may read."""
    if home == "/" or not os.path.isdir(home):
        return
    for path in _private_in(home):
        _hide(path)
    _mount(home, home, None, _MS_BIND | _MS_REC)
    _make_read_only(home)


def _private_in(home: str) -> list[str]:
    """Return the files and directories of a home directory that only its owner may access.

    Searched in the home directory itself and below its directories whose names begin with a dot, where certificates
    and tokens are kept; other directories may hold very much software.
    """
    private_paths, waiting, left = [], [(home, 0)], _MOST_ENTRIES
    while waiting and left > 0:
        directory, depth = waiting.pop(0)
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in list(entries):
                left -= 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                    continue
                if not mode & 0o077:
                    private_paths.append(entry.path)
                elif stat.S_ISDIR(mode) and depth < _DEEPEST and (depth or entry.name.startswith(".")):
                    waiting.append((entry.path, depth + 1))
    return private_paths


def _make_read_only(mounted: str) -> None:
    has = os.statvfs(mounted).f_flag
    locked = sum(flag for status_flag, flag in _LOCKED.items() if has & status_flag)
    _mount(None, mounted, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | locked)


def _keep(path: str, descriptor: int) -> None:
    """Mount an opened file or directory at its path again, after others were mounted above."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(path, exist_ok=True)
    elif not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "xb"):
            pass
    _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None) != 0:
        raise _error(target)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    sys.exit(main())
