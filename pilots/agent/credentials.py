"""Where the pilot's first token comes from: a file that only its owner can read, or standard input; nowhere else."""

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


def read_token(source: str) -> str:
    """Return the token in the first line of the file *source*, or of standard input for ``-``.

    Raises:
        BadTokenError: see there.
    """
    if source == STANDARD_INPUT:
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
