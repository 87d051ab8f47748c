"""Gives one payload namespaces of its own: of processes, mounts and System V memory, and of users unless it is root's.

Started as a script of its own, imports nothing of the pilot: ``namespaces.py SPECIFICATION SCRIPT``. It makes the
namespaces and waits; its child, the first process in them, becomes the script (payload_supervisor.py), whose first
argument is its process id as the pilot sees it. When that process ends, for whatever reason, the kernel ends all others
in there. With ``-`` in the place of the script it only tries whether all of this can be done.

The specification is a JSON object: ``tmp``, a directory of the job that takes the place of those in ``shared``, /tmp
and the like; ``shared_memory``, where shared memory has its names, /dev/shm; ``hide``, files and directories that are
empty in there; ``show``, others that the job needs, wherever they are; ``top``, the directory of the job, of which
there are only ``read`` and ``own``, files and directories to be read and to be written to: the others are the pilot's;
``home``, the pilot's, which can only be read in there, without what is readable to its owner alone; ``other_user``,
whether the payload becomes another user than the pilot's, who would be none in a namespace of users;
``shared_memory_mb``, the most that this may hold, 0: as much as the kernel gives.
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
#: {flag of statvfs(3): flag of mount(2)}: those of a mount of another user namespace stay as they are.
_LOCKED = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE = 1, 4
#: What a payload is in there whose pilot is the root of a user namespace only, so that it has no capabilities.
_NOT_ROOT = 60706
_TRY = "-"
#: Of a home, which may be on a slow file server: entries that are looked at, and levels.
_MOST_ENTRIES, _DEEPEST = 5000, 3


def main() -> int:
    """Make the namespaces, and wait for the end of their first process."""
    specification, script = json.loads(sys.argv[1]), sys.argv[2]
    try:
        _unshare(other_user=bool(specification["other_user"]))
        _mount_all(specification)
    except OSError as error:
        sys.exit(f"the payload cannot have namespaces of its own: {error}")
    # Not before: the files by which users are mapped would be root's.
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(0), 0, 0, 0)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid != 0:
        os.write(writing, f"{pid}".encode())
        os.close(writing)
        return _wait_for(pid)
    os.close(writing)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    told = os.read(reading, 32)
    os.close(reading)
    if not told:  # the parent was killed
        return 1
    try:
        _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | 8)
    except OSError as error:
        sys.exit(f"the payload cannot have its own /proc: {error}")
    if script == _TRY:
        return 0 if [name for name in os.listdir("/proc") if name.isdecimal()] == ["1"] else 1  # noqa: PTH208 - names
    sys.argv = [script, told.decode()]
    runpy.run_path(script, run_name="__main__")
    return 0


def _wait_for(pid: int) -> int:
    # A batch system signals all processes of a slot: what that means for the payload is the pilot's to say.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.close(0)
    _, status = os.waitpid(pid, 0)
    return 0 if status == 0 else 1


def _unshare(*, other_user: bool) -> None:
    uid, gid = os.getuid(), os.getgid()
    namespaces = _CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID
    # Who keeps its user has a namespace of users: as root it could unmount what hides the pilot's.
    wanted = namespaces if other_user else namespaces | _CLONE_NEWUSER
    if ctypes.CDLL(None, use_errno=True).unshare(wanted) != 0:
        raise _error("unshare")
    if other_user:
        return
    # The order is the kernel's: who may still change groups could get rid of one that denies him something.
    for name, content in (
        ("setgroups", "deny"),
        ("gid_map", f"{gid or _NOT_ROOT} {gid} 1"),
        ("uid_map", f"{uid or _NOT_ROOT} {uid} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123 - no need of another module
            file.write(content)


def _mount_all(specification: dict[str, object]) -> None:
    hide, read, own, show = (_paths(specification, name) for name in ("hide", "read", "own", "show"))
    # What is mounted outside, as repositories of CVMFS are on demand, is seen in here, and nothing the other way round.
    _mount(None, "/", None, _MS_REC | _MS_SLAVE)
    mask = os.umask(0o022)
    # By descriptors: what is mounted first may hide them.
    temporary = os.open(str(specification["tmp"]), os.O_PATH | os.O_DIRECTORY)
    kept = {each: os.open(each, os.O_PATH) for each in (*show, *read, *own)}
    given = _paths(specification, "shared")
    shared = {os.path.realpath(each) for each in given if os.path.isdir(each)}  # noqa: PTH112 - no other module
    for each in sorted(shared):
        _mount(f"/proc/self/fd/{temporary}", each, None, _MS_BIND)
    _replace_memory(str(specification["shared_memory"]), specification["shared_memory_mb"])
    _let_groups_be()
    for each in hide:
        if (real := os.path.realpath(each)) not in shared:
            _hide(real)
    if home := str(specification["home"]):
        _protect(os.path.realpath(home))
    for path in show:
        if not _is_there(path, kept[path]):
            _keep(path, kept[path])
    _hide(str(specification["top"]))
    for path in read:
        _keep(path, kept[path])
        _let_only_be_read(path)
    for path in own:  # a mount of its own, so that nothing can be put in its place
        _keep(path, kept[path])
    for descriptor in (temporary, *kept.values()):
        os.close(descriptor)
    os.umask(mask)


def _replace_memory(place: str, most_mb: object) -> None:
    """Give the payload shared memory of its own, and message queues."""
    if os.path.isdir(place):  # noqa: PTH112 - no need of another module
        size = f",size={most_mb}m" if most_mb else ""
        _mount("tmpfs", place, "tmpfs", _MS_NOSUID | _MS_NODEV, f"mode=1777{size}")
    with suppress(OSError):  # not every kernel has it, and of another's queues the namespace sees none
        _mount("mqueue", "/dev/mqueue", "mqueue", _MS_NOSUID | _MS_NODEV)


def _paths(specification: dict[str, object], name: str) -> list[str]:
    paths = specification[name]
    if not isinstance(paths, list):
        raise TypeError(f"{name} is no list")
    return [str(each) for each in paths]


def _let_groups_be() -> None:
    """Let control groups only be read: in one that was given to its account, the pilot's processes could be ended."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - no other module
        mounts = [line.split() for line in file]
    for _, place, kind, *_ in mounts:
        if kind in {"cgroup", "cgroup2"}:
            with suppress(OSError):  # hidden by another mount, or its name has a blank
                _mount(place, place, None, _MS_BIND)
                _let_only_be_read(place)


def _hide(path: str) -> None:
    """Put something empty in the place of a file or directory."""
    if path == "/":
        return
    try:
        is_directory = stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return  # there is none, or what it is in is hidden already
    if is_directory:
        _mount("tmpfs", path, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=1m")
    else:
        _mount(os.devnull, path, None, _MS_BIND)


def _protect(home: str) -> None:
    """Let a directory only be read, and of what is in it only that which others than its owner may read, too."""
    if home == "/" or not os.path.isdir(home):  # noqa: PTH112 - no need of another module
        return
    for path in _private_in(home):
        _hide(path)
    _mount(home, home, None, _MS_BIND | _MS_REC)
    _let_only_be_read(home)


def _private_in(home: str) -> list[str]:
    """Return the files and directories of a home that are its owner's alone.

    Looked for in the home itself, and below its directories whose names begin with a dot: certificates and tokens are
    kept there, and software, of which there may be very much, elsewhere.
    """
    found, waiting, left = [], [(home, 0)], _MOST_ENTRIES
    while waiting and left > 0:
        directory, depth = waiting.pop(0)
        with suppress(OSError), os.scandir(directory) as entries:
            for entry in list(entries):
                left -= 1
                mode = entry.stat(follow_symlinks=False).st_mode
                if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                    continue
                if not mode & 0o077:
                    found.append(entry.path)
                elif stat.S_ISDIR(mode) and depth < _DEEPEST and (depth or entry.name.startswith(".")):
                    waiting.append((entry.path, depth + 1))
    return found


def _let_only_be_read(mounted: str) -> None:
    """Let what is mounted there only be read."""
    has = os.statvfs(mounted).f_flag
    locked = sum(flag for told, flag in _LOCKED.items() if has & told)
    _mount(None, mounted, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | locked)


def _keep(path: str, descriptor: int) -> None:
    """Have a file or directory where it was before others were put in its place."""
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        os.makedirs(path, exist_ok=True)  # noqa: PTH103 - no need of another module
    elif not os.path.exists(path):  # noqa: PTH110 - the same
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - the same
        with open(path, "xb"):  # noqa: PTH123 - the same
            pass
    _mount(f"/proc/self/fd/{descriptor}", path, None, _MS_BIND | _MS_REC)


def _is_there(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))  # noqa: PTH116 - no need of another module
    except OSError:
        return False


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    encoded = [None if each is None else os.fsencode(each) for each in (source, target, kind)]
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None) != 0:
        raise _error(target)


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    sys.exit(main())
