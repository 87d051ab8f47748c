"""The console: standard output for people, if it is a terminal, else for programs."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import TextIO, Union

from .colours import Colours
from .tables import Facts, Table, as_lines, as_tsv, exact
from .text import moment, plain, width_of


class Note(str):
    """A line for people only: shown at a terminal, in a weak colour."""

    __slots__ = ()


class Verbatim(str):
    """A text that is printed as it is: drawn by the client, or meant for programs as it came."""

    __slots__ = ()


#: A line, a table, or facts.
Part = Union[str, Table, Facts]


class Console:
    """Prints the output of a command.

    Args:
        stream: standard output.
        environment: may turn colours off, by NO_COLOR or TERM=dumb, and sets the width of a terminal by COLUMNS.
    """

    def __init__(self, stream: TextIO, environment: Mapping[str, str]) -> None:
        self._stream = stream
        self.is_terminal = stream.isatty()
        dull = environment.get("NO_COLOR") or environment.get("TERM") == "dumb"
        self.colours = Colours(on=self.is_terminal and not dull)

    @property
    def size(self) -> os.terminal_size:
        """Return the columns and lines of the terminal."""
        return shutil.get_terminal_size()

    def print(self, parts: Iterable[Part]) -> None:
        """Print the parts of an output, one after another."""
        for part in parts:
            for line in self.lines_of(part):
                self._stream.write(line + "\n")
        self._stream.flush()

    def write(self, text: str) -> None:
        """Print a text as it is, at once."""
        self._stream.write(text)
        self._stream.flush()

    def lines_of(self, part: Part) -> list[str]:
        """Return the lines of a part; only in what is Verbatim there can be control characters of a server."""
        if isinstance(part, Verbatim):
            return [part]
        if isinstance(part, Note):
            return [self.colours.dim(plain(part))] if self.is_terminal else []
        if isinstance(part, str):
            return [plain(part)]
        if isinstance(part, Facts):
            return self._facts(part)
        if not self.is_terminal:
            return as_tsv(part)
        return as_lines(part, width=self.size.columns, colours=self.colours, now=datetime.now(timezone.utc))

    def _facts(self, part: Facts) -> list[str]:
        facts = [(plain(label), value) for label, value in part.facts if value not in (None, "", [], ())]
        if not self.is_terminal:
            return [f"{label}\t{exact(value)}" for label, value in facts]
        widest = max((width_of(label) for label, _ in facts), default=0)
        return [
            self.colours.heading(f"{label}:".ljust(widest + 2)) + self._value(label, value) for label, value in facts
        ]

    def _value(self, label: str, value: object) -> str:
        if label == "status":
            return self.colours.status(plain(value))
        if label.endswith("_at") or label in {"since", "until"}:
            return moment(value)
        return ", ".join(map(plain, value)) if isinstance(value, (list, tuple)) else plain(value)


def can_ask() -> bool:
    """Return whether somebody sits at the terminal who can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()
