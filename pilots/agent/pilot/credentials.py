"""The pilot's first token: read from a file that only its owner can read, or from a descriptor."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

_MAX_BYTES = 4096
STANDARD_INPUT = "-"


class BadTokenError(Exception):
    """The token cannot be read, or others could have read it; the text is one sentence for the user."""


def read_token(source: str, *, descriptor: int | None = None) -> str:
    """Return the token in the first line of the file *source*, or of standard input for ``-``.

    Args:
        source: path or ``-``.
        descriptor: read and closed instead of *source*.

    Raises:
        BadTokenError: there is no valid token, or others can read it.
    """
    if descriptor is not None:
        content, name = _content_behind(descriptor), f"Descriptor {descriptor}"
    elif source == STANDARD_INPUT:
        content, name = sys.stdin.buffer.readline(_MAX_BYTES), "Standard input"
    else:
        content, name = _content_of(Path(source)), source
    lines = content.decode("utf-8", "replace").split("\n", 1)
    token = lines[0].strip()
    if not token:
        raise BadTokenError(f"{name} holds no token in its first line.")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise BadTokenError(f"{name} holds something else than a token in its first line.")
    return token


def file_left(source: str, *, descriptor: int | None = None) -> Path | None:
    """Return the file with the token that stays on the node; None: the token comes from a pipe or a deleted file.

    Args:
        source, descriptor: as for read_token(); to be called before it.
    """
    opened = 0 if descriptor is None and source == STANDARD_INPUT else descriptor
    name = Path(source if opened is None else f"/proc/self/fd/{opened}")
    try:
        status = name.stat()
    except OSError:
        return None
    return name.resolve() if stat.S_ISREG(status.st_mode) and status.st_nlink > 0 else None


def _content_behind(descriptor: int) -> bytes:
    try:
        with open(descriptor, "rb") as file:
            return file.readline(_MAX_BYTES)
    except OSError as error:
        raise BadTokenError(f"Descriptor {descriptor} cannot be read: {error.strerror}.") from error


def _content_of(path: Path) -> bytes:
    try:
        # The open file is checked, not its name, so that it cannot be exchanged in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BadTokenError(f"The token file {path} cannot be read: {error.strerror}.") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadTokenError(f"The token file {path} is not a plain file.")
        if status.st_mode & 0o077:
            raise BadTokenError(f"Others can read the token file {path}: make it yours alone with chmod 600 {path}")
        return file.read(_MAX_BYTES)
