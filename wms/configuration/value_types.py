"""Types of values in the schema: functions that return readers of nodes, and annotations with them."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

from resources.domain.parameters import MAX_NAME_LENGTH, ValueProblem, canonical_name, canonical_value
from wms.accounts.domain import MAX_KEPT_DAYS, MAX_STALLED_S, MIN_STALLED_S
from wms.configuration.problems import Unreadable
from wms.configuration.reading import MAX_SHOWN, Location, Use, ValueReader, atom, number, pairs, shown, what
from wms.kernel.fields import NAME_PATTERN
from wms.kernel.names import composed, did_you_mean
from wms.kernel.yaml_text import ListNode, MappingNode, Node, ScalarNode

#: PostgreSQL's integer columns.
MAX_INTEGER = 2**31 - 1
MAX_BIG_INTEGER = 2**63 - 1

#: {noun of an entry: the noun in sentences, where it differs}.
NOUNS = {"vo": "VO", "ce": "computing element"}

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


# ---- Texts -----------------------------------------------------------------------------------------------------------


def text(
    longest: int = 255,
    *,
    empty: bool = False,
    pattern: re.Pattern[str] | None = None,
    hint: str = "",
    secret: bool = False,
    as_written: bool = False,
) -> ValueReader:
    """Return the reader of a text; numbers and other words with a meaning in YAML need quotes.

    Args:
        longest: characters.
        empty: it may be.
        pattern: that it must match.
        hint: what would.
        secret: no sentence repeats it, and it stays as written.
        as_written: unchanged, for addresses; names and words are normalised (NFC).
    """

    def read(node: Node, at: Location) -> str:
        value = atom(node, at)
        if not isinstance(value, str):
            got = "a text" if value is None or secret else f'a text; put "{shown(node)}" in quotes'
            raise at.refuse(node, f"use {got}")
        value = value if secret or as_written else composed(value)
        if not value.strip() and not empty:
            raise at.refuse(node, "must not be empty")
        if len(value) > longest:
            raise at.refuse(node, f"use at most {longest} characters")
        if _UNSTORABLE.search(value):
            raise at.refuse(node, "holds a character that cannot be stored")
        if pattern is not None and not pattern.match(value):
            raise at.refuse(node, hint if secret else f"{what(node)} is not accepted: {hint}")
        return value

    kind = "secret text" if secret else "text"
    return ValueReader(f"{kind}, at most {longest} characters{', or empty' if empty else ''}", read)


def name(longest: int = 128) -> ValueReader:
    """Return the reader of a name that fits into URLs, logs and lists."""
    hint = "use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _"
    return ValueReader(f"name, at most {longest} characters", text(longest, pattern=NAME_PATTERN, hint=hint))


def reference_to(noun: str, *, may_be_missing: bool = False) -> ValueReader:
    """Return the reader of a reference to an object of the file or the database; it is checked after the whole file.

    Args:
        noun: of the objects.
        may_be_missing: the object may be added later; until then the name is left out.
    """
    read_text = text()

    def read(node: Node, at: Location) -> object:
        value = read_text(node, at)
        at.reading.uses.append(Use(node.line, at.path, noun, str(value), may_be_missing=may_be_missing))
        return value

    return ValueReader(f"name of a {NOUNS.get(noun, noun)}", read)


def one_of(words: Iterable[str]) -> ValueReader:
    """Return the reader of one of *words*; of an enumeration, of its member."""
    known = {str(word): word for word in words if word}
    *others, last = known
    listed = " or ".join(filter(None, [", ".join(others), last]))

    def read(node: Node, at: Location) -> str:
        value = atom(node, at)
        if not isinstance(value, str) or value not in known:
            raise at.refuse(node, f"use {listed}.{did_you_mean(str(value)[:MAX_SHOWN], known)}")
        return known[value]

    return ValueReader(listed, read)


def _moment(node: Node, at: Location) -> datetime:
    if not isinstance(node, ScalarNode):
        raise at.refuse(node, f"use a date and time, not {what(node)}")
    try:
        value = datetime.fromisoformat(node.text)
    except ValueError as error:
        raise at.refuse(node, "use a date and time such as 2027-01-31T12:00:00Z") from error
    if value.utcoffset() is None:
        raise at.refuse(node, "give the time zone, such as 2027-01-31T12:00:00Z for UTC")
    if not 1 < value.year < 9999:
        raise at.refuse(node, "use a year from 2 to 9998")
    return value.astimezone(UTC)  # PostgreSQL accepts no offset of 16 hours or more


# ---- Numbers and flags -----------------------------------------------------------------------------------------------


def whole_number(least: int = 0, most: int = MAX_INTEGER, *, or_zero: bool = False) -> ValueReader:
    """Return the reader of a number without a fraction, within bounds, both inclusive."""

    def read(node: Node, at: Location) -> int:
        value = number(node, at)
        if isinstance(value, bool) or not isinstance(value, int):
            raise at.refuse(node, f"use a whole number, not {what(node)}")
        if not least <= value <= most and not (or_zero and value == 0):
            raise at.refuse(node, f"must be {'0, or ' if or_zero else ''}from {least} to {most}")
        return value

    return ValueReader(f"whole number, {'0, or ' if or_zero else ''}{least} to {most}", read)


def real_number(least: float = 0.0, most: float = 1e12) -> ValueReader:
    """Return the reader of a number within bounds, both inclusive."""

    def read(node: Node, at: Location) -> float:
        value = number(node, at)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise at.refuse(node, f"use a number, not {what(node)}")
        if not least <= value <= most:
            raise at.refuse(node, f"must be from {least:g} to {most:g}")
        return float(value)

    return ValueReader(f"number, {least:g} to {most:g}", read)


def _flag(node: Node, at: Location) -> bool:
    value = number(node, at)
    if not isinstance(value, bool):
        raise at.refuse(node, f"use true or false, not {what(node)}")
    return value


flag = ValueReader("true or false", _flag)


# ---- Free parameters and options -------------------------------------------------------------------------------------


def _parameters(node: Node, at: Location) -> Mapping[str, object]:
    """Return free parameters of a resource (RFC7), names with a value or a list of values; the values are canonical."""
    read: dict[str, object] = {}
    for written, key, value in pairs(node, at, same=lambda name: composed(name).casefold()):
        spelt = composed(written)
        with suppress(Unreadable):
            place = at.key(spelt[:MAX_NAME_LENGTH])
            read[spelt] = _parameter(spelt, key, value, place)
            at.reading.lines[place.path] = key.line
    return dict(sorted(read.items()))


def _parameter(spelt: str, key: ScalarNode, node: Node, at: Location) -> object:
    raw = [atom(item, at.item(i)) for i, item in enumerate(node.nodes)] if isinstance(node, ListNode) else None
    try:
        canonical_name(spelt)
        value = canonical_value(atom(node, at) if raw is None else raw)
    except ValueProblem as problem:
        raise at.refuse(key, str(problem)) from problem
    return list(value) if isinstance(value, tuple) else value


def _parameters_by_vo(node: Node, at: Location) -> Mapping[str, object]:
    by_vo = {}
    for written, key, value in pairs(node, at, same=composed):
        place = at.key(composed(written))
        at.reading.uses.append(Use(key.line, place.path, "vo", composed(written)))
        with suppress(Unreadable):
            by_vo[composed(written)] = _parameters(value, place)
    return dict(sorted(by_vo.items()))


def _options(node: Node, at: Location) -> Mapping[str, object]:
    """Return options of a backend: names with values, lists or mappings of them."""
    read = {}
    for option, key, value in pairs(node, at):
        with suppress(Unreadable):
            if _UNSTORABLE.search(option):
                raise at.refuse(key, "a name holds a character that cannot be stored")
            read[option] = _option(value, at.key(option))
    return read


def _option(node: Node, at: Location) -> object:
    if isinstance(node, MappingNode):
        return _options(node, at)
    if isinstance(node, ListNode):
        return [_option(item, at.item(position)) for position, item in enumerate(node.nodes)]
    value = atom(node, at)
    try:
        return None if value is None else canonical_value(value)
    except ValueProblem as problem:
        raise at.refuse(node, str(problem)) from problem


# ---- Annotations of the schema ---------------------------------------------------------------------------------------

Name = Annotated[str, name()]
Label = Annotated[str, text()]
#: Empty: none is chosen here.
Setup = Annotated[str, text(64, empty=True)]
Count = Annotated[int, whole_number()]
Positive = Annotated[int, whole_number(1)]
Fraction = Annotated[float, real_number(most=1.0)]
Age = Annotated[int, whole_number(most=MAX_KEPT_DAYS)]
StallWindow = Annotated[int, whole_number(MIN_STALLED_S, MAX_STALLED_S, or_zero=True)]
Moment = Annotated[datetime, ValueReader("date and time with its zone, such as 2027-01-31T12:00:00Z", _moment)]
Parameters = Annotated[Mapping[str, object], ValueReader("mapping of names to values or lists", _parameters)]
ParametersByVO = Annotated[Mapping[str, object], ValueReader("mapping of VOs to such mappings", _parameters_by_vo)]
Options = Annotated[Mapping[str, object], ValueReader("mapping of names to values, lists or mappings", _options)]

VOName = Annotated[str, reference_to("vo")]
GroupName = Annotated[str, reference_to("group")]
SiteName = Annotated[str, reference_to("site")]
CEName = Annotated[str, reference_to("ce")]
