"""Which Unix user a payload runs as: one of a site's accounts, or, where the pilot is root, a number of its own.

Of a site's accounts two owners on one node never share one while there is a free one. A number that no account has
belongs to one payload alone, until nothing of that payload is left.
"""

from __future__ import annotations

import fcntl
import grp
import hashlib
import os
import pwd
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pilots.agent.base import linux, log, processes, shared_directories
from pilots.agent.job.user_helper import remove_tree

_DIRECTORY = "wms-accounts-{uid}"
#: User ids of payloads of pilots that run as root. No tool gives them to accounts or containers; the first 478 are
#: unused by systemd's list too, the others are those of its dynamic users, which it notes in a directory.
UIDS = range(60706, 65520)
_DYNAMIC_USERS = Path("/run/systemd/dynamic-uid")
_MAPS = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))
_AGAIN_S = 0.02


class NoAccountError(Exception):
    """There is no account that the payload could run under."""


class Account(NamedTuple):
    """A Unix user."""

    name: str
    uid: int


class Claim:
    """An account that is held until it is given back, or this process ends."""

    def __init__(self, account: Account, lock: int | None = None) -> None:
        """Note what is held; without a *lock* nothing is, and others may have the account at the same time."""
        self.account = account
        self._lock = lock

    def give_back(self) -> None:
        """Let others have the account."""
        if self._lock is not None:
            os.close(self._lock)


def claim_uid(owner: Path, *, directory: Path | None = None) -> Claim:
    """Return a user id without an account, which nobody else on the node gets while it is held.

    Nor does anybody as long as *owner* exists, or a process runs under it: nothing of a killed pilot's payload is ever
    another payload's.

    Args:
        owner: directory of the job.
        directory: of the locks; None: the usual one.

    Raises:
        NoAccountError: all are taken, or the locks cannot be made.
    """
    try:
        place = common_directory(_DIRECTORY) if directory is None else _private(directory)
        with (place / "choice").open("a+b") as choice:
            fcntl.flock(choice, fcntl.LOCK_EX)
            used = {uid for _, uids in _processes() for uid in uids}
            for uid in _after(choice):
                if uid not in used and _is_nobodys(uid) and (lock := _lock_of(uid, place)) is not None:
                    os.ftruncate(lock, 0)
                    os.pwrite(lock, os.fsencode(owner), 0)
                    choice.truncate(0)
                    choice.write(str(uid).encode())
                    return Claim(Account("", uid), lock)
    except OSError as error:
        raise NoAccountError(f"no user id could be locked: {error.strerror}") from error
    raise NoAccountError("all user ids for payloads are taken on the node")


def _after(choice: BinaryIO) -> Sequence[int]:
    """Return the user ids, first those after the last one that was claimed.

    What a payload left where nobody looks, or locked, is not met by the next one but, if at all, by one much later.
    """
    choice.seek(0)
    last = choice.read(16)
    begin = UIDS.index(int(last)) + 1 if last.isdigit() and int(last) in UIDS else 0
    return [*UIDS[begin:], *UIDS[:begin]]


def can_change_user() -> bool:
    """Return whether this process is root, and not only the root of a user namespace that has no other user."""
    return os.geteuid() == 0 and all(_is_mapped(UIDS[0], map_) for map_ in _MAPS)


def processes_of(uid: int) -> Sequence[int]:
    """Return the living processes of a user."""
    return [pid for pid, uids in _processes() if uid in uids]


def end_all_of(uid: int, *, within_s: float) -> bool:
    """Kill every process of a user; return whether none is left that could execute an instruction."""
    give_up_at = time.monotonic() + within_s
    while found := processes_of(uid):
        processes.kill(found)
        if time.monotonic() > give_up_at:
            return all(map(processes.is_being_killed, found))
        time.sleep(_AGAIN_S)
    return True


def remove_files_of(uid: int) -> None:
    """Remove what a user, of whom no process is left, put into the directories and the memory that are everybody's."""
    linux.remove_ipc_of(uid)
    for top in shared_directories.ALL:
        with suppress(OSError), os.scandir(top) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_uid != uid:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - a file of scandir


def _is_nobodys(uid: int) -> bool:
    if not all(_is_mapped(uid, map_) for map_ in _MAPS) or (_DYNAMIC_USERS / str(uid)).exists():
        return False
    for find in (pwd.getpwuid, grp.getgrgid):
        try:
            find(uid)
        except KeyError:
            continue
        return False
    return True


def _is_mapped(uid: int, map_: Path) -> bool:
    """Return whether the user namespace of this process has a user or group."""
    try:
        lines = [list(map(int, line.split())) for line in map_.read_text().splitlines()]
    except (OSError, ValueError):
        return True  # a kernel without user namespaces
    return any(first <= uid < first + count for first, _, count in lines)


def _lock_of(uid: int, place: Path) -> int | None:
    """Return the lock of a user id; None: it is another's, or the directory of the job that had it still exists."""
    lock = os.open(place / f"uid-{uid}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    owner = os.pread(lock, 4096, 0)
    if owner and os.path.lexists(owner):
        os.close(lock)
        return None
    return lock


def _processes() -> Iterator[tuple[int, frozenset[int]]]:
    """Yield (process id, user ids that it has or can take) of every living process that can be seen."""
    names: Sequence[str] = ()
    with suppress(OSError):  # there may be no /proc
        names = os.listdir("/proc")  # noqa: PTH208 - thousands of names
    for name in names:
        if not name.isdecimal():
            continue
        with suppress(OSError, ValueError, KeyError, IndexError):
            lines = Path("/proc", name, "status").read_text(errors="replace").splitlines()
            told = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
            if told["State"][0] not in "ZX" or told["Threads"] != ["1"]:
                yield int(name), frozenset(map(int, told["Uid"]))


def claim(names: Sequence[str], *, owner: str, directory: Path | None = None) -> Claim:
    """Return the account for *owner*'s payload, the same one again where that can be.

    All pilots of one user on one node agree by locks in a directory for temporary files. Where all accounts are taken
    by others, the owner's first choice is shared.

    Args:
        names: of the accounts.
        owner: of the job.
        directory: of the locks; None: the usual one.

    Raises:
        NoAccountError: one of the names is not to be used, or the locks cannot be made.
    """
    if not names:
        raise NoAccountError("the computing element names no payload_users")
    accounts = [_account(name) for name in sorted(set(names), key=lambda name: _rank(owner, name))]
    try:
        place = common_directory(_DIRECTORY) if directory is None else _private(directory)
        with (place / "choice").open("ab") as choice:
            fcntl.flock(choice, fcntl.LOCK_EX)
            return _choose(accounts, owner, place)
    except OSError as error:
        raise NoAccountError(f"no account could be locked: {error.strerror}") from error


def _choose(accounts: Sequence[Account], owner: str, place: Path) -> Claim:
    """Take an account that is the owner's already, else a free one, else the first; called under the lock of choice."""
    free: tuple[Account, int] | None = None
    for account in accounts:
        lock = os.open(place / account.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if os.pread(lock, 1024, 0) == owner.encode():
                fcntl.flock(lock, fcntl.LOCK_SH)
                if free is not None:
                    os.close(free[1])
                return Claim(account, lock)
            os.close(lock)
            continue
        if free is None:
            free = account, lock
            continue
        os.close(lock)
    if free is None:
        account = accounts[0]
        lock = os.open(place / account.name, os.O_RDWR | os.O_NOFOLLOW)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return Claim(account, lock)
    account, lock = free
    os.ftruncate(lock, 0)
    os.pwrite(lock, owner.encode(), 0)
    fcntl.flock(lock, fcntl.LOCK_SH)
    return Claim(account, lock)


def named(names: Sequence[str]) -> Sequence[Account]:
    """Return the accounts of these names.

    Raises:
        NoAccountError: one of them is not to be used.
    """
    return [_account(name) for name in names]


def _account(name: str) -> Account:
    try:
        found = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise NoAccountError(f"there is no user {name} on the node") from None
    if found.pw_uid in {0, os.getuid(), os.geteuid()}:
        raise NoAccountError(f"user {name} is {'root' if found.pw_uid == 0 else 'the pilot itself'}")
    return Account(name, found.pw_uid)


def _rank(owner: str, name: str) -> bytes:
    """Order accounts for one owner by chance, though alike on all nodes (rendezvous hashing)."""
    return hashlib.sha256(f"{owner}/{name}".encode()).digest()


def common_directory(name: str) -> Path:
    """Return a directory that all pilots of this user on this node share; made if need be.

    Args:
        name: of the directory, with ``{uid}`` in it.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    name = name.format(uid=os.getuid())
    # They all find it there, whatever their batch system says is for temporary files.
    common = shared_directories.TMP / name
    try:
        return _private(common)
    except OSError as error:
        log.event("accounts.no_common_locks", directory=common, error=error)
        return _private(Path(tempfile.gettempdir(), name))


def _private(directory: Path) -> Path:
    """Return *directory*, which is made if need be.

    Raises:
        OSError: it is not there, or not this user's.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or not directory.is_dir() or directory.is_symlink():
        raise PermissionError(1, f"{directory} belongs to somebody else")
    return directory
