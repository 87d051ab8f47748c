"""Output of the supervisor and its children, each line with the name of its part, as text or as JSON."""

import asyncio
import logging
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from django.conf import settings

from wms.kernel.log_lines import JsonLine

_WIDTH = 9
#: Longer lines are cut; a program that writes no line feeds does not write for people.
_LONGEST_LINE_BYTES = 64 * 1024
_JSON: Final = JsonLine()


class Output:
    """Standard output of all parts; lines are dropped when its reader has gone."""

    def __init__(self) -> None:
        self._block: Sequence[str] = ()

    @property
    def is_terminal(self) -> bool:
        """Whether lines can be redrawn in place."""
        return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def line(self, name: str, text: str) -> None:
        """Write one line of *name*."""
        self.text(_record(name, text) if settings.WMS_LOG_FORMAT == "json" else f"{name:<{_WIDTH}}| {text}")

    def greet(self, text: str) -> None:
        """Write the text, or one record with it."""
        self.text(_record("up", text) if settings.WMS_LOG_FORMAT == "json" else text)

    def text(self, text: str) -> None:
        """Write the text unchanged, and a line feed."""
        self._write(f"{self._erased()}{text}\n{self._drawn()}")

    def block(self, lines: Sequence[str]) -> None:
        """Show *lines*, none of them coloured, below all other output, in place of those of the last call.

        Does nothing if the output is no terminal.
        """
        if self.is_terminal:
            erased = self._erased()
            width = max(20, shutil.get_terminal_size().columns)
            self._block = [line[: width - 1] for line in lines]  # a wrapped line could not be erased
            self._write(erased + self._drawn())

    def _drawn(self) -> str:
        return "".join(f"{line}\n" for line in self._block)

    def _erased(self) -> str:
        """Return the escape sequence that moves the cursor to the block's first line and clears from there on."""
        return f"\x1b[{len(self._block)}F\x1b[J" if self._block else ""

    def _write(self, text: str) -> None:
        encoding = sys.stdout.encoding or "utf-8"  # some encodings lack the letter π
        try:
            sys.stdout.write(text.encode(encoding, errors="replace").decode(encoding))
            sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python would report the buffered lines when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _record(part: str, text: str) -> str:
    """Return the JSON record of a part with its name; a text that is no record, such as PostgreSQL's, becomes one."""
    if not (text.startswith('{"') and text.endswith("}")):
        text = _JSON.format(logging.makeLogRecord({"name": part, "levelname": "INFO", "msg": text}))
    return f'{{"part":{msgspec.json.encode(part).decode()},{text[1:]}'


async def copy_lines(descriptor: int, *, write: Callable[[str], None], last: deque[str]) -> None:
    """Pass each non-empty line to *write* until the pipe ends, keeping the last ones in *last*.

    The descriptor is closed at the end.
    """
    stream = asyncio.StreamReader(limit=_LONGEST_LINE_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(descriptor, "rb")
    )
    try:
        while line := await _next_line(stream):
            text = line.decode(errors="replace").rstrip()
            if text:
                last.append(text)
                write(text)
    finally:
        transport.close()


async def _next_line(stream: asyncio.StreamReader) -> bytes:
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.read(max(1, overrun.consumed))
