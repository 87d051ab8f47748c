"""Output for people: plain lines and tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone


def plain(value: object) -> str:
    r"""Return a value as text without control characters, which are written as ``\\x1b`` or ``\\u202e``."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(value))


def moment(value: object) -> str:
    """Return a time of the server for people, to the minute; anything else unchanged."""
    try:
        # Python 3.10 and older do not read the Z.
        at = datetime.fromisoformat(re.sub("Z$", "+00:00", str(value)))
    except ValueError:
        return plain(value)
    return f"{at.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC" if at.tzinfo else plain(value)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a table, with columns as wide as their content."""
    texts = [list(head), *([plain(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*texts)]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in texts]
