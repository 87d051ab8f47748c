"""The bar that shows how far the jobs of a submission are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from ..statuses import ENDED
from .colours import Colours
from .text import plain, shortened, width_of

#: Statuses in the order of a bar: ends first, as it fills from the left.
_ORDER = ("Done", "Failed", "Killed", "Deleted", "Completing", "Running", "Matched", "Held")
_WIDEST_BAR = 40
_FULL, _BUSY, _EMPTY = "█", "▒", "░"


def ended(jobs: Mapping[str, int]) -> int:
    """Return the number of jobs that have ended.

    Args:
        jobs: numbers of jobs by status.
    """
    return sum(number for status, number in jobs.items() if status in ENDED)


def bar_of(jobs: Mapping[str, int], *, width: int, colours: Colours) -> str:
    """Return the bar and the numbers, in one line of at most *width* columns."""
    total = sum(jobs.values())
    numbers = "  ".join(f"{number} {status}" for status, number in sorted(jobs.items(), key=_position) if number)
    text = plain(f"{ended(jobs)}/{total}  {numbers}")
    cells = min(_WIDEST_BAR, width - width_of(text) - 1)
    if cells < 3:
        return shortened(text, width)
    return f"{_bar(jobs, total=total, cells=cells, colours=colours)} {text}"


def _bar(jobs: Mapping[str, int], *, total: int, cells: int, colours: Colours) -> str:
    parts, drawn, counted = [], 0, 0
    for status in _ORDER:
        counted += jobs.get(status, 0)
        until = cells * counted // total if total else 0
        parts.append(colours.status((_FULL if status in ENDED else _BUSY) * (until - drawn), named=status))
        drawn = until
    return "".join(parts) + _EMPTY * (cells - drawn)


def _position(item: tuple[str, int]) -> int:
    return _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)


class ProgressBar:
    """A line of a terminal that is drawn anew with each change; nothing where there is no terminal.

    Args:
        stream: standard error, as standard output is for the answer.
        colours: of the statuses.
    """

    def __init__(self, stream: TextIO, *, colours: Colours) -> None:
        self._stream, self._colours = stream, colours
        self._is_on = stream.isatty()

    def show(self, jobs: Mapping[str, int], *, width: int) -> None:
        """Draw the bar for these numbers of jobs by status."""
        if self._is_on:
            self._stream.write("\r" + bar_of(jobs, width=width - 1, colours=self._colours) + "\x1b[K")
            self._stream.flush()

    def draw(self, text: str, *, part: float, width: int) -> None:
        """Draw the bar for a part, 0 to 1, of all that is to be done."""
        cells = max(0, min(_WIDEST_BAR, width - width_of(text) - 2))
        full = round(part * cells)
        if self._is_on:
            self._stream.write(f"\r{_FULL * full}{_EMPTY * (cells - full)} {text}\x1b[K")
            self._stream.flush()

    def remove(self) -> None:
        """Clear the line."""
        if self._is_on:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._is_on:
            self._stream.write("\n")
            self._stream.flush()
