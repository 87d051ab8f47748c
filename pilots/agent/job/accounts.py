"""Unix users for payloads: accounts of the site or, where the pilot is root, user ids without an account.

Two owners on one node share an account of the site only when none is free. A user id without an account belongs to
one payload until nothing of that payload is left.
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
#: User ids of payloads whose pilot is root. No tool assigns them to accounts or containers. systemd reserves all but
#: the first 478 for its dynamic users, which it lists in _DYNAMIC_USERS.
UIDS = range(60706, 65520)
_DYNAMIC_USERS = Path("/run/systemd/dynamic-uid")
_MAPS = (Path("/proc/self/uid_map"), Path("/proc/self/gid_map"))
#: Seconds from SIGKILL to all processes of a user until the last one has ended.
_ALL_END_WITHIN_S = 10.0
#: Seconds between two signals to processes that are being killed.
_AGAIN_S = 0.02


class NoAccountError(Exception):
    """No account is available for the payload."""


class Account(NamedTuple):
    """A Unix user."""

    name: str
    uid: int


class Claim:
    """An account that is held until it is given back, or this process ends."""

    def __init__(self, account: Account, lock: int | None = None) -> None:
        """Hold *account* by *lock*, a descriptor; without a lock others may use the account at the same time."""
        self.account = account
        self._lock = lock

    def give_back(self) -> None:
        """Release the account."""
        if self._lock is not None:
            os.close(self._lock)


def claim_uid(owner: Path, *, directory: Path | None = None) -> Claim:
    """Claim a user id without an account, for this payload alone.

    It is not given to another payload while *owner* exists or a process runs under it, so that the remains of a
    killed pilot's payload never come to belong to another one.

    Args:
        owner: directory of the job.
        directory: of the locks; None: the common one.

    Raises:
        NoAccountError: all are taken, or the locks cannot be made.
    """
    try:
        lock_directory = _lock_directory() if directory is None else _private(directory)
        with (lock_directory / "choice").open("a+b") as choice:
            fcntl.flock(choice, fcntl.LOCK_EX)
            used = {uid for _, uids in _processes() for uid in uids}
            for uid in _after(choice):
                if uid not in used and _is_unused(uid) and (lock := _lock_of(uid, lock_directory)) is not None:
                    os.ftruncate(lock, 0)
                    os.pwrite(lock, os.fsencode(owner), 0)
                    choice.truncate(0)
                    choice.write(str(uid).encode())
                    return Claim(Account("", uid), lock)
    except OSError as error:
        raise NoAccountError(f"no user id could be locked: {error.strerror}") from error
    raise NoAccountError("all user ids for payloads are taken on the node")


def _after(choice: BinaryIO) -> Sequence[int]:
    """Return all user ids, starting after the last one claimed.

    Files that a payload left unseen or locked are then met by a much later payload, if at all.
    """
    choice.seek(0)
    last = choice.read(16)
    begin = UIDS.index(int(last)) + 1 if last.isdigit() and int(last) in UIDS else 0
    return [*UIDS[begin:], *UIDS[:begin]]


def can_change_user() -> bool:
    """Return whether this process is root and its user namespace has other users."""
    return os.geteuid() == 0 and all(_is_mapped(UIDS[0], map_) for map_ in _MAPS)


def processes_of(uid: int) -> Sequence[int]:
    """Return the living processes of a user."""
    return [pid for pid, uids in _processes() if uid in uids]


def end_all_of(uid: int) -> bool:
    """Kill every process of a user; return whether none is left that can still run."""
    give_up_at = time.monotonic() + _ALL_END_WITHIN_S
    while pids := processes_of(uid):
        processes.kill(pids)
        if time.monotonic() > give_up_at:
            return all(map(processes.is_being_killed, pids))
        time.sleep(_AGAIN_S)
    return True


def remove_files_of(uid: int) -> None:
    """Remove the files and System V objects in shared places of a user without processes."""
    linux.remove_ipc_of(uid)
    for top in shared_directories.ALL:
        with suppress(OSError), os.scandir(top) as entries:
            for entry in entries:
                if entry.stat(follow_symlinks=False).st_uid != uid:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    remove_tree(entry.path)
                else:
                    Path(entry.path).unlink()


def _is_unused(uid: int) -> bool:
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
    """Return whether the user namespace of this process maps a user or group id."""
    try:
        lines = [list(map(int, line.split())) for line in map_.read_text().splitlines()]
    except (OSError, ValueError):
        return True  # a kernel without user namespaces
    return any(first <= uid < first + count for first, _, count in lines)


def _lock_of(uid: int, lock_directory: Path) -> int | None:
    """Return the lock of a user id; None: it is taken, or the directory of its last job still exists."""
    lock = os.open(lock_directory / f"uid-{uid}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
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
    """Yield (process id, its real, effective, saved and file system user ids) of every living process."""
    names: Sequence[str] = ()
    with suppress(OSError):  # there may be no /proc
        names = os.listdir("/proc")
    for name in names:
        if not name.isdecimal():
            continue
        with suppress(OSError, ValueError, KeyError, IndexError):
            lines = Path("/proc", name, "status").read_text(errors="replace").splitlines()
            fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
            if fields["State"][0] not in "ZX" or fields["Threads"] != ["1"]:
                yield int(name), frozenset(map(int, fields["Uid"]))


def claim(names: Sequence[str], *, owner: str, directory: Path | None = None) -> Claim:
    """Claim an account for *owner*'s payload, the same one each time where possible.

    All pilots of one user on one node use locks in one directory. Where all accounts are taken by others, the owner's
    first choice is shared.

    Args:
        names: of the accounts.
        owner: of the job.
        directory: of the locks; None: the common one.

    Raises:
        NoAccountError: one of the accounts cannot be used, or the locks cannot be made.
    """
    if not names:
        raise NoAccountError("the computing element names no payload_users")
    accounts = [_account(name) for name in sorted(set(names), key=lambda name: _rank(owner, name))]
    try:
        lock_directory = _lock_directory() if directory is None else _private(directory)
        with (lock_directory / "choice").open("ab") as choice:
            fcntl.flock(choice, fcntl.LOCK_EX)
            return _choose(accounts, owner, lock_directory)
    except OSError as error:
        raise NoAccountError(f"no account could be locked: {error.strerror}") from error


def _choose(accounts: Sequence[Account], owner: str, lock_directory: Path) -> Claim:
    """Claim an account that the owner already has, else a free one, else the first; the caller holds ``choice``."""
    free: tuple[Account, int] | None = None
    for account in accounts:
        lock = os.open(lock_directory / account.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
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
        lock = os.open(lock_directory / account.name, os.O_RDWR | os.O_NOFOLLOW)
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
        NoAccountError: one of them cannot be used.
    """
    return [_account(name) for name in names]


def _account(name: str) -> Account:
    try:
        entry = pwd.getpwnam(name)
    except (KeyError, ValueError):
        raise NoAccountError(f"there is no user {name} on the node") from None
    if entry.pw_uid in {0, os.getuid(), os.geteuid()}:
        raise NoAccountError(f"user {name} is {'root' if entry.pw_uid == 0 else 'the pilot itself'}")
    return Account(name, entry.pw_uid)


def _rank(owner: str, name: str) -> bytes:
    """Return the sort key of an account for one owner: random, but equal on all nodes (rendezvous hashing)."""
    return hashlib.sha256(f"{owner}/{name}".encode()).digest()


def _lock_directory() -> Path:
    """Return the directory of the locks of all pilots of this user.

    Raises:
        OSError: it cannot be made, or belongs to somebody else, who would make each pilot lock for itself, so that
            payloads of two owners get one account.
    """
    common = shared_directories.TMP / _DIRECTORY.format(uid=os.getuid())
    return _private(common) if os.path.lexists(common) else common_directory(_DIRECTORY)


def common_directory(name: str) -> Path:
    """Return a directory that all pilots of this user on this node share, created if missing.

    Args:
        name: of the directory, with ``{uid}`` in it.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    name = name.format(uid=os.getuid())
    # Not TMPDIR, which batch systems set differently for each slot.
    common = shared_directories.TMP / name
    try:
        return _private(common)
    except OSError as error:
        log.event("accounts.no_common_locks", directory=common, error=error)
        return _private(Path(tempfile.gettempdir(), name))


def _private(directory: Path) -> Path:
    """Return *directory*, created if missing.

    Raises:
        OSError: it cannot be made, or belongs to somebody else.
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    if status.st_uid != os.getuid() or not directory.is_dir() or directory.is_symlink():
        raise PermissionError(1, f"{directory} belongs to somebody else")
    return directory
