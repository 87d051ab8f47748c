"""Paths from which the server reads: nobody but its own account and root may have written there (ADR 85)."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_ROOT: Final = 0
#: Most links on the way to a file, as for the kernel.
_MOST_LINKS: Final = 40
#: Extended attribute of a file that grants rights to single accounts; the group's bits of its mode are their maximum.
_ACL: Final = "system.posix_acl_access"
#: Links to what this process has opened, or was given, whatever is there.
_DESCRIPTORS: Final = Path("/proc/self/fd")


class UntrustedPathError(Exception):
    """Another account could choose what is read at a path."""


def require_trusted(path: Path, *, owners: frozenset[int] = frozenset()) -> None:
    """Return if only the account of this process and root can choose what is at *path*; nothing needs to be there.

    Each level must belong to one of them and be writable by nobody else, from the root directory on and on the way of
    links. A sticky directory of root is safe, and a group whose only member is the owner.

    Args:
        path: of a file, directory or socket.
        owners: further accounts that may own the last level.

    Raises:
        UntrustedPathError: with a sentence that says why, and what to do.
    """
    for level, status in _levels(path):
        trusted = {_ROOT, os.geteuid(), *(owners if level == path.absolute() else ())}
        if status.st_uid not in trusted:
            raise UntrustedPathError(f"{_begin(path, level)} belongs to {_account(status.st_uid)}. {_advice(status)}")
        if writers := _other_writers(level, status):
            sentence = f"{_begin(path, level)} can be written by {writers}."
            raise UntrustedPathError(f"{sentence} Take that right away by chmod, or name another path.")


def _levels(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield each directory and link on the way to a path, and what is there, as far as this account can look."""
    place, left = Path("/"), list(reversed(path.absolute().parts[1:]))
    links = 0
    yield place, place.lstat()
    while left:
        name = left.pop()
        here = place.parent if name == ".." else place / name
        try:
            status = here.lstat()
        except OSError:
            return  # nothing can be read there
        yield here, status
        if not stat.S_ISLNK(status.st_mode):
            place = here
            continue
        links += 1
        if links > _MOST_LINKS or here.parent.resolve() == _DESCRIPTORS.resolve():
            return
        target = here.readlink()
        if target.is_absolute():
            place = Path("/")
        left += reversed([part for part in target.parts if part != "/"])


def _other_writers(level: Path, status: os.stat_result) -> str:
    """Return the accounts beside owner and root who can change a file or directory, in words; empty: none."""
    mode = status.st_mode
    is_directory = stat.S_ISDIR(mode)
    if not (is_directory or stat.S_ISREG(mode)) or (is_directory and mode & stat.S_ISVTX and status.st_uid == _ROOT):
        return ""
    if mode & stat.S_IWOTH:
        return "every account"
    if mode & stat.S_IWGRP and not _is_only_of(status.st_gid, owner=status.st_uid):
        return f"the group {_group(status.st_gid)}"
    if mode & stat.S_IWGRP and _has_acl(level):
        return "accounts that its access control list names"
    return ""


def _has_acl(level: Path) -> bool:
    with suppress(OSError):  # a file system without attributes
        return _ACL in os.listxattr(level, follow_symlinks=False)
    return False


def _is_only_of(group: int, *, owner: int) -> bool:
    """Return whether the members of a group are known, and are its owner, or root, alone."""
    try:
        name, _, _, named = grp.getgrgid(group)
    except KeyError:
        return False
    accounts = pwd.getpwall()
    if owner not in {account.pw_uid for account in accounts}:
        # A directory service that lists nobody: by the custom that the group of one account has its name.
        return name == _account(owner) and {*named} <= {name}
    members = {account.pw_uid for account in accounts if account.pw_gid == group or account.pw_name in named}
    unknown = {*named} - {account.pw_name for account in accounts}
    return bool(members) and members <= {owner, _ROOT} and not unknown


def _begin(path: Path, level: Path) -> str:
    return f"{path} is not used: it" if level == path.absolute() else f"{path} is not used: {level}"


def _advice(status: os.stat_result) -> str:
    owner = _account(status.st_uid)
    if os.geteuid() == _ROOT:
        return f"Run this command as {owner}, give the path to root by chown, or name another one."
    return f"Name a path of your own, or one that belongs to {_account(os.geteuid())} or root at each level."


def _account(user: int) -> str:
    with suppress(KeyError):
        return pwd.getpwuid(user).pw_name
    return str(user)


def _group(group: int) -> str:
    with suppress(KeyError):
        return grp.getgrgid(group).gr_name
    return str(group)
