"""Times and durations in sentences for people."""

from datetime import datetime
from typing import Final

#: The shortest duration with each unit, the unit in seconds, the next smaller one, and their names. Limits on jobs are
#: said in hours up to two days: 36 h, not 1 d 12 h.
_UNITS: Final = ((48 * 3600, 86_400, 3600, "d", "h"), (3600, 3600, 60, "h", "min"), (60, 60, 1, "min", "s"))


def to_the_second(moment: datetime | None) -> str:
    """Return the moment as ``2026-07-01 12:00:00 UTC``; empty for None."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def duration(seconds: float) -> str:
    """Return a duration with its two largest units, such as ``2 h 05 min``; the smaller one is left out if it is 0.

    What is less than the smaller unit is cut off; only durations under ten seconds have a decimal, such as ``0.2 s``.
    """
    sign, length_s = "-" if seconds < 0 else "", abs(seconds)
    if length_s < 10:
        tenths = round(length_s, 1)
        return f"{sign if tenths else ''}{tenths:g} s"
    whole_s = round(length_s)
    for least_s, unit_s, smaller_s, name, smaller in _UNITS:
        if whole_s >= least_s:
            rest = whole_s % unit_s // smaller_s
            return f"{sign}{whole_s // unit_s:,} {name}{f' {rest:02} {smaller}' if rest else ''}"
    return f"{sign}{whole_s} s"
