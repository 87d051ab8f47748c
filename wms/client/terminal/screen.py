"""The view of the whole screen: lines that are drawn anew, and the terminal as it was when it ends."""

from __future__ import annotations

import select
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

#: Absent on Windows, where Ctrl-C alone ends a view.
termios: Any = None
with suppress(ImportError):
    import termios

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
_HOME, _TO_END_OF_LINE, _TO_END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


@contextmanager
def whole_screen(stream: TextIO) -> Iterator[Screen]:
    """Yield the alternate screen; at the end the terminal is as it was."""
    screen = Screen(stream)
    screen.enter()
    try:
        yield screen
    finally:
        screen.leave()


class Screen:
    """The alternate screen of a terminal, without its cursor, while keys are read one by one.

    Args:
        stream: the terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._before: Sequence[object] | None = None

    def enter(self) -> None:
        """Show the alternate screen."""
        if termios is not None and sys.stdin.isatty():
            self._before = termios.tcgetattr(sys.stdin)
            changed = termios.tcgetattr(sys.stdin)
            changed[3] &= ~(termios.ICANON | termios.ECHO)
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, changed)
        self._stream.write(_ENTER)
        self._stream.flush()

    def leave(self) -> None:
        """Show what was there before."""
        with suppress(OSError):  # the terminal is gone
            self._stream.write(_LEAVE)
            self._stream.flush()
            if self._before is not None:
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self._before)

    def draw(self, lines: Sequence[str], *, height: int) -> None:
        """Show the first lines that fit; each is no wider than the terminal."""
        text = "\r\n".join(line + _TO_END_OF_LINE for line in lines[:height])
        self._stream.write(_HOME + text + _TO_END_OF_SCREEN)
        self._stream.flush()

    def key_within(self, seconds: float) -> str:
        """Return the key that is pressed within so many seconds; empty: none."""
        if self._before is None:
            select.select([], [], [], seconds)
            return ""
        ready, _, _ = select.select([sys.stdin], [], [], seconds)
        return sys.stdin.read(1) if ready else ""
