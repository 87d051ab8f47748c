"""Names in sentences: suggestions for mistyped names, shortened lists, and numbers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from unicodedata import category, normalize

from wms.kernel.time_texts import to_the_second

#: Names listed in a sentence; the rest are counted.
MOST_LISTED = 5
#: Names of an object or a list, and characters of a value, that the history keeps: the security log cuts longer ones.
MOST_IN_HISTORY = 45
LONGEST_IN_HISTORY = 90
#: Unicode's categories of controls, formats, lone surrogates, and separators of lines and paragraphs.
_NOT_IN_ONE_LINE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
#: Characters between names; a name holds none of them.
_SEPARATORS = re.compile(r"[\s,;]+")


def composed(text: str) -> str:
    """Return *text* in Unicode's composed form (NFC): the one spelling in which names are stored and compared.

    All input is composed once, where it enters the system: file names from some systems are decomposed.
    """
    return text if text.isascii() else normalize("NFC", text)


def composed_names(value: object) -> object:
    """Return a text, or the texts of a list, in NFC; anything else unchanged."""
    if isinstance(value, str):
        return composed(value)
    if isinstance(value, list | tuple):
        return [composed(item) if isinstance(item, str) else item for item in value]
    return value


def composed_all(value: object) -> object:
    """Return a JSON value with every name and text in NFC."""
    if isinstance(value, str):
        return composed(value)
    if isinstance(value, dict):
        return {composed_all(name): composed_all(inner) for name, inner in value.items()}
    return [composed_all(inner) for inner in value] if isinstance(value, list) else value


def is_one_line(text: str) -> bool:
    """Return whether *text* has none of the characters that end a line, steer a terminal, or hide what is shown.

    These are the controls, such as ESC, the separators of lines and paragraphs, and all format characters: those that
    change the direction of a text, and those without width.
    """
    return text.isprintable() or not any(category(character) in _NOT_IN_ONE_LINE for character in text)


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Return `` Did you mean "…"?`` with the known name nearest to *name*, or an empty string.

    Letter case is ignored. The leading space lets the hint be appended to any sentence.
    """
    by_folded = {candidate.casefold(): candidate for candidate in known}
    nearest = get_close_matches(name.casefold(), by_folded, n=1, cutoff=cutoff)
    return f' Did you mean "{by_folded[nearest[0]]}"?' if nearest else ""


def listed(names: Iterable[str], *, last: str = ", ") -> str:
    """Return the first names with commas, *last* before the last of them, and the number of the rest."""
    names = list(names)
    shown, hidden = names[:MOST_LISTED], len(names) - MOST_LISTED
    if hidden > 0:
        return f"{', '.join(shown)} and {hidden} more"
    return last.join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def counted(number: int, thing: str) -> str:
    """Return a number and its noun, such as "1 queue" or "2,000 queues"."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def in_percent(part: float) -> str:
    """Return a part of 1 with three digits, such as "17.5 %"."""
    return f"{100 * part:.3g} %"


def in_full(value: float) -> str:
    """Return a number as it was configured, without zeros that say nothing, such as "1000"."""
    return f"{value:.12g}"


def change_in_words(before: object, after: object) -> str:
    """Return an old and a new value, such as "1000 → 6000", or only the new one where there was none."""
    return _value_in_words(after) if before in (None, "") else f"{_value_in_words(before)} → {_value_in_words(after)}"


def values_in_words(before: object, after: object) -> object:
    """Return an old and a new value without secrets for the history.

    Returns:
        Of objects {name: old and new value} of the names that differ, and so of objects in them, so that the log masks
        what is secret by its name; of lists the added and removed names ("+a", "-b"); of anything else the old and the
        new value, such as "1000 → 6000".
    """
    if isinstance(after, Mapping) or (isinstance(before, Mapping) and after is None):
        old, new = (value if isinstance(value, Mapping) else {} for value in (before, after))
        differing = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
        shown = {name: _inner_in_words(old.get(name), new.get(name)) for name in differing[:MOST_IN_HISTORY]}
        return {**shown, **_rest(differing)}
    names = changed_names(before, after)
    return change_in_words(before, after) if names is None else [*names[:MOST_IN_HISTORY], *_rest(names).values()]


def _inner_in_words(before: object, after: object) -> object:
    is_object = isinstance(before, Mapping) or isinstance(after, Mapping)
    return values_in_words(before, after) if is_object else change_in_words(before, after)


def _rest(names: Sequence[str]) -> dict[str, str]:
    more = len(names) - MOST_IN_HISTORY
    return {"…": f"and {more} more"} if more > 0 else {}


def changed_names(before: object, after: object) -> list[str] | None:
    """Return the names that differ between two objects ("+a", "~b", "-c") or two lists; None: *after* is neither."""
    if isinstance(after, Mapping):
        old = before if isinstance(before, Mapping) else {}
        signs = {
            name: "~" if name in old and name in after else "+" if name in after else "-" for name in {*old, *after}
        }
        return [f"{sign}{name}" for name, sign in sorted(signs.items()) if sign != "~" or old[name] != after[name]]
    if isinstance(after, Iterable) and not isinstance(after, str | bytes):
        had = {str(each) for each in before} if isinstance(before, Iterable) and not isinstance(before, str) else set()
        has = {str(each) for each in after}
        return [*(f"+{each}" for each in sorted(has - had)), *(f"-{each}" for each in sorted(had - has))]
    return None


def _value_in_words(value: object) -> str:
    if value in (None, ""):
        return "none"
    if isinstance(value, float):
        return in_full(value)
    if isinstance(value, datetime):
        return to_the_second(value)
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= LONGEST_IN_HISTORY else f"{text[: LONGEST_IN_HISTORY - 1]}…"


def separated(names: str) -> list[str]:
    """Return the names of a list separated by commas or semicolons, as in DIRAC; spaces do not separate."""
    return [name for part in re.split("[,;]", names) if (name := part.strip())]


def several_in_one(name: str) -> str:
    """Return a hint, with a leading space, for an unknown name that looks like several, or an empty string."""
    parts = [part for part in _SEPARATORS.split(name) if part]
    if len(parts) < 2:
        return ""
    return f" A name has no spaces, commas or semicolons; give {len(parts)} names: {listed(parts)}."
