"""Directories that the server made in earlier versions, or under another umask, closed to other accounts."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def close_to_others(directory: Path, *, deep: bool = True) -> bool:
    """Close a directory that other accounts may look into, and all that is in it; return whether there was need.

    What is in one that is closed already is left as it is: nobody else gets there. Links are not followed.

    Args:
        directory: of this account's own; nothing happens where it is missing.
        deep: False leaves alone what is in it.

    Raises:
        PermissionError: something in it belongs to another account.
    """
    if not directory.is_dir() or not is_open_to_others(directory):
        return False
    for parent, directories, files in os.walk(directory) if deep else ():
        for names, mode in ((directories, DIRECTORY_MODE), (files, FILE_MODE)):
            for name in names:
                with suppress(FileNotFoundError):  # a running server may finish an upload meanwhile
                    _close(Path(parent, name), mode)
    # Last: a start that was cut short begins again.
    directory.chmod(DIRECTORY_MODE)
    return True


def is_open_to_others(path: Path) -> bool:
    """Return whether the mode of a file, or directory, gives anything to its group or to others."""
    return bool(path.stat(follow_symlinks=False).st_mode & _OTHERS)


def _close(path: Path, mode: int) -> None:
    found = path.stat(follow_symlinks=False).st_mode
    if (stat.S_ISREG(found) or stat.S_ISDIR(found)) and found & _OTHERS:
        path.chmod(mode)
