"""Where the pilot's first token comes from: a file that only its owner can read, or a descriptor; nowhere else."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

#: A pilot's own token, which is used as it is; anything else is exchanged for one (POST /api/pilots/register/).
PILOT_TOKEN_PREFIX = "wmsp_"  # noqa: S105 - how tokens begin
_MAX_BYTES = 4096
STANDARD_INPUT = "-"


class BadTokenError(Exception):
    """The token cannot be had, or others could have had it; the text is one sentence for the user."""


def read_token(source: str, *, descriptor: int | None = None) -> str:
    """Return the token in the first line of the file *source*, or of standard input for ``-``.

    Args:
        source: see above.
        descriptor: to be read and closed, in place of the *source*.

    Raises:
        BadTokenError: see there.
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
    """Return the file that holds the token and stays; None: it came through a pipe, or has no name any more.

    Args:
        source, descriptor: as of read_token(), before it is called.
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
        # The open file is looked at, not its name: nobody can exchange it in between.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise BadTokenError(f"The token file {path} cannot be read: {error.strerror}.") from error
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadTokenError(f"The token file {path} is no file.")
        if status.st_mode & 0o077:
            raise BadTokenError(f"Others can read the token file {path}: make it yours alone with chmod 600 {path}")
        return file.read(_MAX_BYTES)
