"""Times and durations in sentences for people."""

from datetime import datetime
from typing import Final

#: The shortest duration with each unit, the unit in seconds, the next smaller one, and their names. Limits on jobs are
#: said in hours up to two days: 36 h, not 1 d 12 h.
_UNITS: Final = ((48 * 3600, 86_400, 3600, "d", "h"), (3600, 3600, 60, "h", "min"), (60, 60, 1, "min", "s"))


def to_the_second(moment: datetime | None) -> str:
    """Return the moment as ``2026-07-01 12:00:00 UTC``; empty for None."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S %Z}"


def between(least_s: float, most_s: float) -> str:
    """Return a range of durations in words, rounded as estimates are: ``20 min to 1 h 10 min``, ``less than 5 min``."""
    most = duration(_rounded(most_s))
    return f"{duration(_rounded(least_s))} to {most}" if least_s else f"less than {most}"


def _rounded(seconds: float) -> float:
    unit_s = 10 if seconds < 60 else 60 if seconds < 3600 else 600
    return max(unit_s, round(seconds / unit_s) * unit_s)


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
