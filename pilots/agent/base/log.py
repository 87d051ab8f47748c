"""Events to standard error, one line each: ``2026-06-01T12:00:00Z payload.started job=7 pid=4711``.

Each line is kept in a journal too, from which the pilot sends it to the server (log_upload.py). Processes forked from
the pilot write to the same journal.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import threading
import time
from contextlib import suppress
from fcntl import F_GETFL, F_SETFL, fcntl

_PLAIN = re.compile(r"[\w./:+@%-]+\Z", re.ASCII)
#: Tokens of every kind, by how they begin.
_TOKEN = re.compile(r"\b(wms[a-z]_)[\w.-]+", re.ASCII)
#: A line is cut here: only a traceback comes near it.
_MAX_LINE_BYTES = 16 * 1024
_BLOCK_BYTES = 512


def event(name: str, **fields: object) -> None:
    """Write one line; a value with blanks or control characters is written as a JSON string.

    Tokens and what users wrote to their files never belong here; a token that comes in somebody else's words, such as
    those of an error, is cut short.
    """
    words = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), name]
    words += [f"{key}={_written(value)}" for key, value in fields.items() if value is not None]
    line = " ".join(words)
    journal.append(line)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # nobody listens any more; the jobs matter more than the log


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = _TOKEN.sub(r"\1…", str(value))
    return text if _PLAIN.match(text) else json.dumps(text)


class Journal:
    """The lines that this process and those forked from it wrote, until they are sent.

    They are in memory that has a file's descriptor, for that is shared by processes, grows by whole lines whoever
    writes, and needs no disk: that the disk is full is what a log may have to tell. An offset in it is one in the log:
    what was sent is given back to the system, and leaves a hole.
    """

    def __init__(self, *, max_bytes: int = 4 * 1024 * 1024) -> None:
        """Open nothing yet.

        Args:
            max_bytes: of lines that could not be sent; more are only counted.
        """
        self._max_bytes = max_bytes
        self._opened = False
        self._opening = threading.Lock()
        self._lost = 0
        #: None: there is no such memory here, and no line is kept.
        self.descriptor: int | None = None

    def append(self, line: str) -> None:
        """Add *line*, which is ASCII and without its end; one that finds no room is lost, and counted."""
        if not self._opened:
            self._open()
        if self.descriptor is None:
            return
        told = f"{line[:_MAX_LINE_BYTES]}\n"
        if self._lost:
            told = f"[{self._lost} lines lost: the server could not be told in time]\n{told}"
        try:
            if os.fstat(self.descriptor).st_blocks * _BLOCK_BYTES >= self._max_bytes:
                self._lost += 1
                return
            os.write(self.descriptor, told.encode("ascii", "replace"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def read(self, offset: int, *, most: int) -> str:
        """Return up to *most* characters from *offset* on; at the end: none."""
        if self.descriptor is None:
            return ""
        try:
            return os.pread(self.descriptor, most, offset).decode("ascii", "replace")
        except OSError:
            return ""

    def _open(self) -> None:
        # Once: of two threads that begin at the same time, one would write where nobody reads.
        with self._opening:
            if self._opened:
                return
            with suppress(OSError):
                descriptor = _memory()
                # Processes and threads write where the end is then, not where it was.
                fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | os.O_APPEND)
                self.descriptor = descriptor
            self._opened = True


def _memory() -> int:
    """Return the descriptor of memory, or, in a Python or on a system without it, of a file without a name."""
    try:
        return os.memfd_create("log")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


#: Of this process and of those forked from it.
journal = Journal()
