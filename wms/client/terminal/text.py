"""Texts for a terminal: without control characters, of a given width, and times and durations in few characters."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from unicodedata import combining, east_asian_width

#: Stands for what was left out.
ELLIPSIS = "…"
#: Seconds and name of each unit of time, the longest first.
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def plain(value: object) -> str:
    r"""Return a value as text without control characters, which are written as ``\\x1b`` or ``\\u202e``."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in str(value))


def width_of(text: str) -> int:
    """Return the number of columns that a text without control characters takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def shortened(text: str, width: int) -> str:
    """Return the text in at most *width* columns (at least 1); an ellipsis stands for its end."""
    if width_of(text) <= width:
        return text
    taken, used = [], 1
    for letter in text:
        used += width_of(letter)
        if used > width:
            break
        taken.append(letter)
    return "".join(taken).rstrip() + ELLIPSIS


def parsed_moment(value: object) -> datetime | None:
    """Return a time of the server (RFC 3339) in UTC; None: it is none."""
    try:
        # Python 3.10 and older do not read the Z.
        at = datetime.fromisoformat(re.sub("Z$", "+00:00", str(value)))
        return at.astimezone(timezone.utc) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def moment(value: object, *, seconds: bool = False) -> str:
    """Return a time of the server for people, to the minute or the second; anything else unchanged."""
    at = parsed_moment(value)
    if at is None:
        return plain(value)
    return f"{at:{'%Y-%m-%d %H:%M:%S' if seconds else '%Y-%m-%d %H:%M'}} UTC"


def ago(value: object, *, now: datetime) -> str:
    """Return the distance of a time of the server from *now*, such as ``5 min ago``; anything else unchanged."""
    at = parsed_moment(value)
    if at is None:
        return plain(value)
    distance_s = int((now - at).total_seconds())
    if abs(distance_s) < 1:
        return "now"
    length = duration(abs(distance_s)).partition(" ")
    words = f"{length[0]} {length[2].split()[0]}"
    return f"{words} ago" if distance_s > 0 else f"in {words}"


def duration(seconds: float) -> str:
    """Return a duration in its two largest units, such as ``2 h 5 min``."""
    left = int(seconds)
    parts = []
    for length_s, name in _UNITS:
        number, left = divmod(left, length_s)
        if number:
            parts.append(f"{number} {name}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def size(number_of_bytes: float) -> str:
    """Return a size with a unit, such as ``1.5 MB`` (of 10^6 bytes)."""
    value = float(number_of_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
