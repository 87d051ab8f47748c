"""A tile of the Operations page: one fact about the system, and whether it is well."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One fact about the system."""

    name: str
    is_well: bool
    #: The fact, such as "12 of 97 connections".
    text: str
    #: Since when it is so; None: not known, or it is no state.
    since: datetime | None = None
    #: One sentence that says what to do; empty if it is well.
    to_do: str = ""
    #: What it consists of, one each.
    lines: Sequence[str] = ()
    #: Name of the address of a page with more; empty: there is none.
    url_name: str = ""
    #: Whether it is about computing elements that an operator may have asked again now.
    may_ask_again: bool = False


#: Lines of a tile that are shown.
MOST_LINES = 8


def shown(lines: Sequence[str]) -> Sequence[str]:
    """Return the first lines, and how many there are beyond them."""
    beyond = len(lines) - MOST_LINES
    return lines if beyond <= 0 else [*lines[:MOST_LINES], f"and {beyond:,} more"]
