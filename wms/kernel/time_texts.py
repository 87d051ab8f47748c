"""Times in sentences for people."""

from datetime import datetime


def to_the_second(moment: datetime | None) -> str:
    """Return the moment as ``2026-07-01 12:00:00 UTC``; empty for None."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S %Z}"
