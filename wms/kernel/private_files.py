"""Access rights of the server's directories: closed to other accounts, also those made by earlier versions."""

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_OTHERS: Final = 0o077


def close_to_others(directory: Path, *, deep: bool = True) -> bool:
    """Close a directory and its content to other accounts; return whether it was open.

    The content of a closed directory is unchanged: other accounts cannot reach it. Links are not followed.

    Args:
        directory: owned by this account; a missing one is skipped.
        deep: False leaves the content unchanged.

    Raises:
        PermissionError: some content belongs to another account.
    """
    if not directory.is_dir() or not is_open_to_others(directory):
        return False
    for parent, directories, files in os.walk(directory) if deep else ():
        for names, mode in ((directories, DIRECTORY_MODE), (files, FILE_MODE)):
            for name in names:
                with suppress(FileNotFoundError):  # a running server may finish an upload meanwhile
                    _close(Path(parent, name), mode)
    # Last: an interrupted start then begins again.
    directory.chmod(DIRECTORY_MODE)
    return True


def write_private(file: Path, text: str) -> None:
    """Write the file whole or not at all, readable by its owner alone; a power failure does not bring back the old one.

    Its directory must belong to this account alone.
    """
    unfinished = file.with_name(f"{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(
        os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w", encoding="utf-8"
    ) as target:
        target.write(text)
        target.flush()
        os.fsync(target.fileno())
    unfinished.rename(file)
    sync_directory(file.parent)


def sync_directory(directory: Path) -> None:
    """Return when the names of the files in a directory survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_open_to_others(path: Path) -> bool:
    """Return whether the mode of a file or directory grants anything to its group or to others."""
    return bool(path.stat(follow_symlinks=False).st_mode & _OTHERS)


def _close(path: Path, mode: int) -> None:
    file_mode = path.stat(follow_symlinks=False).st_mode
    if (stat.S_ISREG(file_mode) or stat.S_ISDIR(file_mode)) and file_mode & _OTHERS:
        path.chmod(mode)
