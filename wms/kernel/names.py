"""Names in sentences: the nearest one for who mistyped it, and the first of many."""

from collections.abc import Iterable
from difflib import get_close_matches

#: So many are listed; the others are counted.
MOST_LISTED = 5


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean "…"?`` for the known name nearest to *name*, or an empty string.

    Letter case is ignored. The leading space lets the hint be appended to any sentence.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    nearest = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' Did you mean "{by_folded[nearest[0]]}"?' if nearest else ""


def listed(names: Iterable[str], *, last: str = ", ") -> str:
    """Return the first names with commas, *last* before the last of them, and how many more there are."""
    names = list(names)
    shown, hidden = names[:MOST_LISTED], len(names) - MOST_LISTED
    if hidden > 0:
        return f"{', '.join(shown)} and {hidden} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
