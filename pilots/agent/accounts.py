"""Which of a site's Unix accounts a payload gets: on one node two owners never share one while there is a free one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pilots.agent import log

#: Where all pilots of one user on one node find it, whatever their batch system says is for temporary files.
_COMMON = Path("/tmp")  # noqa: S108 - the name of the directory in it is known, but who made it is looked at
_DIRECTORY = "wms-accounts-{uid}"


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
        with (place / "choice").open("wb") as choice:
            fcntl.flock(choice, fcntl.LOCK_EX)
            return _choose(accounts, owner, place)
    except OSError as error:
        raise NoAccountError(f"no account could be locked: {error.strerror}") from error


def _choose(accounts: Sequence[Account], owner: str, place: Path) -> Claim:
    """Take an account that is the owner's already, else a free one, else the first; called under the lock of choice."""
    free: Claim | None = None
    for account in accounts:
        lock = os.open(place / account.name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if os.pread(lock, 1024, 0) == owner.encode():
                fcntl.flock(lock, fcntl.LOCK_SH)
                _drop(free)
                return Claim(account, lock)
            os.close(lock)
            continue
        if free is None:
            free = Claim(account, lock)
            continue
        os.close(lock)
    if free is None:
        account = accounts[0]
        lock = os.open(place / account.name, os.O_RDWR | os.O_NOFOLLOW)
        fcntl.flock(lock, fcntl.LOCK_SH)
        return Claim(account, lock)
    chosen = free._lock  # noqa: SLF001 - of this module
    assert chosen is not None  # noqa: S101 - for the type checker
    os.ftruncate(chosen, 0)
    os.pwrite(chosen, owner.encode(), 0)
    fcntl.flock(chosen, fcntl.LOCK_SH)
    return free


def named(names: Sequence[str]) -> Sequence[Account]:
    """Return the accounts of these names.

    Raises:
        NoAccountError: one of them is not to be used.
    """
    return [_account(name) for name in names]


def _drop(claim: Claim | None) -> None:
    if claim is not None:
        claim.give_back()


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
    try:
        return _private(_COMMON / name)
    except OSError as error:
        log.event("accounts.no_common_locks", directory=_COMMON / name, error=error)
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
