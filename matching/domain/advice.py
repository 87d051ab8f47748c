"""Advice on a waiting job: the values to which its requirements can be changed, and the sentences about that."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from wms.kernel.time_texts import duration

#: Names of sites in one sentence.
MOST_SITES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one change of a job's requirements on the queues that it fits."""

    #: The change as the beginning of a sentence, such as "without the tag gpu".
    words: str
    #: Queues that the changed job fits and the present one does not.
    gained: int
    #: Those of them that accept no jobs at present.
    closed: int = 0
    #: Queues that only the present job fits.
    lost: int = 0
    #: Sites of the gained queues, sorted.
    sites: Sequence[str] = ()


def lowered(required: int, offered: Iterable[int]) -> tuple[int, ...]:
    """Return the values to which a required number can be lowered, the largest first.

    The first is the smallest change that admits a queue, the last the smallest one that admits all of them.

    Args:
        required: as task queues count it.
        offered: by each queue that only this requirement excludes, rounded down to a value that jobs can require.
    """
    values = sorted({value for value in offered if value < required}, reverse=True)
    return tuple(dict.fromkeys([*values[:1], *values[-1:]]))


def best(effects: Iterable[Effect], *, most: int) -> list[Effect]:
    """Return the changes that admit most queues, most first; of equal ones the earlier comes first."""
    helpful = [effect for effect in effects if effect.gained]
    return sorted(helpful, key=lambda effect: (-effect.gained, effect.lost))[:most]


def sentence(effect: Effect, *, fits_some: bool) -> str:
    """Return the sentence about one change: what it is, how many queues it admits, and at which sites.

    Args:
        effect: with a gained queue.
        fits_some: whether the present job fits a queue.
    """
    queues = f"{effect.gained} {'queue' if effect.gained == 1 else 'queues'}{' more' if fits_some else ''}"
    hidden = len(effect.sites) - MOST_SITES
    sites = ", ".join(effect.sites[:MOST_SITES]) + (f" and {hidden} more sites" if hidden > 0 else "")
    parts = [f"{_capitalized(effect.words)} it would fit {queues}: {sites}"]
    if effect.closed:
        accept = "accepts" if effect.closed == 1 else "accept"
        parts.append(f"{effect.closed} of them {accept} no jobs at present")
    if effect.lost:
        parts.append(f"{effect.lost} of those that it fits now would no longer fit")
    return f"{'; '.join(parts)}."


def sentence_about_nearest(place: str, changes: Sequence[str]) -> str:
    """Return the sentence about all changes that one queue would need together."""
    return f"No single change is enough; {place} would fit {', and '.join(changes)}."


def shorter(value_s: int, *, own_s: int) -> tuple[str, str]:
    """Return two different durations in words, in seconds if they would read the same otherwise."""
    words, own_words = duration(value_s), duration(own_s)
    return (words, own_words) if words != own_words else (f"{value_s:,} s", f"{own_s:,} s")


def _capitalized(words: str) -> str:
    return words[:1].upper() + words[1:]
