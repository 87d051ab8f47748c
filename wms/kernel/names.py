"""Help for who mistyped a name."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `` Did you mean "…"?`` for the known name nearest to *name*, or an empty string.

    Letter case is ignored. The leading space lets the hint be appended to any sentence.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    nearest = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f' Did you mean "{by_folded[nearest[0]]}"?' if nearest else ""
