"""The log: events on standard error, one line each: ``2026-06-01T12:00:00Z payload.started job=7 pid=4711``.

The lines are also in a journal, from which the pilot uploads them (log_upload.py). Processes forked from the pilot
write to the same journal.
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
#: Tokens of every kind, by their prefix.
_TOKEN = re.compile(r"\b(wms[a-z]_)[\w.-]+", re.ASCII)
#: Bytes of a line; longer ones are cut. Only tracebacks are nearly as long.
_MAX_LINE_BYTES = 16 * 1024
_BLOCK_BYTES = 512


def event(name: str, **fields: object) -> None:
    """Write one line; values with blanks or control characters are written as JSON strings.

    Never log tokens or content of users' files; a token within the text of an error is cut to its prefix.
    """
    words = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), name]
    words += [f"{key}={_written(value)}" for key, value in fields.items() if value is not None]
    line = " ".join(words)
    journal.append(line)
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass  # standard error is closed or full; jobs go on without it


def _written(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = _TOKEN.sub(r"\1…", str(value))
    return text if _PLAIN.match(text) else json.dumps(text)


class Journal:
    """The log lines of this process and of those forked from it, until they are uploaded.

    They are in a memory file (memfd), because processes share it, append whole lines to it, and need no disk, which may
    be full. Offsets are those of the whole log: memory of uploaded lines is freed and leaves a hole.
    """

    def __init__(self, *, max_bytes: int = 4 * 1024 * 1024) -> None:
        """Prepare; the memory file is created by the first line.

        Args:
            max_bytes: of lines not yet uploaded; further lines are only counted.
        """
        self._max_bytes = max_bytes
        self._opened = False
        self._opening = threading.Lock()
        self._lost = 0
        #: None: not available; lines go to standard error only.
        self.descriptor: int | None = None

    def append(self, line: str) -> None:
        """Add *line*, in ASCII and without line end; one beyond the limit is lost, and counted."""
        if not self._opened:
            self._open()
        if self.descriptor is None:
            return
        text = f"{line[:_MAX_LINE_BYTES]}\n"
        if self._lost:
            text = f"[{self._lost} lines lost: they could not be uploaded in time]\n{text}"
        try:
            if os.fstat(self.descriptor).st_blocks * _BLOCK_BYTES >= self._max_bytes:
                self._lost += 1
                return
            os.write(self.descriptor, text.encode("ascii", "replace"))
        except OSError:
            self._lost += 1
        else:
            self._lost = 0

    def read(self, offset: int, *, most: int) -> str:
        """Return up to *most* characters from *offset* on; empty at the end."""
        if self.descriptor is None:
            return ""
        try:
            return os.pread(self.descriptor, most, offset).decode("ascii", "replace")
        except OSError:
            return ""

    def _open(self) -> None:
        # Only once, even if two threads start at the same time.
        with self._opening:
            if self._opened:
                return
            with suppress(OSError):
                descriptor = _memory()
                # O_APPEND: processes and threads always write at the end.
                fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | os.O_APPEND)
                self.descriptor = descriptor
            self._opened = True


def _memory() -> int:
    """Return the descriptor of a memory file; where that is not supported, of a file without a name."""
    try:
        return os.memfd_create("log")
    except (AttributeError, OSError):
        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


#: The journal of this process and of those forked from it.
journal = Journal()
