"""Types of values in the schema; each reads one node."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from resources.domain.parameters import MAX_NAME_LENGTH, ValueProblem, canonical_name, canonical_value
from wms.configuration.document import ListNode, Node, Pairs, Word
from wms.configuration.reading import (
    MAX_SHOWN,
    Location,
    Use,
    ValueType,
    atom,
    escaped,
    items,
    number,
    pairs,
    shown,
    what,
)
from wms.kernel.names import composed, did_you_mean
from wms.kernel.validators import NAME_PATTERN

#: PostgreSQL's integer columns.
MAX_INTEGER = 2**31 - 1
MAX_BIG_INTEGER = 2**63 - 1

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TextType(ValueType):
    """A text; numbers and other words with a meaning in YAML need quotes."""

    longest: int = 255
    empty: bool = False
    pattern: re.Pattern[str] | None = None
    hint: str = ""
    secret: bool = False
    #: Unchanged, for addresses; names and words are normalised (NFC).
    as_written: bool = False

    def read(self, node: Node, at: Location) -> str:
        """Return the text."""
        value = atom(node, at)
        if not isinstance(value, str):
            got = "a text" if value is None or self.secret else f'a text; put "{shown(node)}" in quotes'
            raise at.refuse(node, f"use {got}")
        if not self.secret and not self.as_written:
            value = composed(value)
        if not value.strip() and not self.empty:
            raise at.refuse(node, "must not be empty")
        if len(value) > self.longest:
            raise at.refuse(node, f"use at most {self.longest} characters")
        if _UNSTORABLE.search(value):
            raise at.refuse(node, "holds a character that cannot be stored")
        if self.pattern is not None and not self.pattern.match(value):
            raise at.refuse(node, self.hint if self.secret else f"{what(node)} will not do: {self.hint}")
        return value

    def plain(self, value: object) -> object:
        """Return the text with ``${`` escaped."""
        return escaped(value) if isinstance(value, str) else value


def name(longest: int = 128) -> TextType:
    """Return the type of a name that fits into URLs, logs and lists."""
    hint = "use letters, digits and . _ : @ + - only, and begin with a letter, a digit or _"
    return TextType(longest, pattern=NAME_PATTERN, hint=hint)


@dataclass(frozen=True, slots=True)
class NameOf(ValueType):
    """The name of an object in the file or the database."""

    of: str
    #: The object may be added later; until then the name is left out.
    may_be_missing: bool = False

    def read(self, node: Node, at: Location) -> str:
        """Return the name; the reference is checked after the whole file is read."""
        value = TextType().read(node, at)
        at.reading.uses.append(Use(node.line, at.path, self.of, value, may_be_missing=self.may_be_missing))
        return value


@dataclass(frozen=True, slots=True)
class ChoiceType(ValueType):
    """One word of a fixed list."""

    words: Iterable[str]

    def read(self, node: Node, at: Location) -> str:
        """Return the word; of an enumeration, its member."""
        value = atom(node, at)
        known = {str(word): word for word in self.words if word}
        if not isinstance(value, str) or value not in known:
            *others, last = known
            words = " or ".join(filter(None, [", ".join(others), last]))
            raise at.refuse(node, f"use {words}.{did_you_mean(str(value)[:MAX_SHOWN], known)}")
        return known[value]

    def plain(self, value: object) -> object:
        """Return the word."""
        return str(value)


@dataclass(frozen=True, slots=True)
class WholeNumberType(ValueType):
    """A number without a fraction."""

    least: int = 0
    most: int = MAX_INTEGER
    or_zero: bool = False

    def read(self, node: Node, at: Location) -> int:
        """Return the number."""
        value = number(node, at)
        if isinstance(value, bool) or not isinstance(value, int):
            raise at.refuse(node, f"use a whole number, not {what(node)}")
        if not self.least <= value <= self.most and not (self.or_zero and value == 0):
            zero = "0, or " if self.or_zero else ""
            raise at.refuse(node, f"must be {zero}from {self.least} to {self.most}")
        return value


@dataclass(frozen=True, slots=True)
class NumberType(ValueType):
    """A number."""

    least: float = 0.0
    most: float = 1e12

    def read(self, node: Node, at: Location) -> float:
        """Return the number."""
        value = number(node, at)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise at.refuse(node, f"use a number, not {what(node)}")
        if not self.least <= value <= self.most:
            raise at.refuse(node, f"must be from {self.least:g} to {self.most:g}")
        return float(value)

    def plain(self, value: object) -> object:
        """Return a whole number without its fraction."""
        return int(value) if isinstance(value, float) and value.is_integer() else value


@dataclass(frozen=True, slots=True)
class FlagType(ValueType):
    """True or false."""

    def read(self, node: Node, at: Location) -> bool:
        """Return the flag."""
        value = number(node, at)
        if not isinstance(value, bool):
            raise at.refuse(node, f"use true or false, not {what(node)}")
        return value


@dataclass(frozen=True, slots=True)
class Instant(ValueType):
    """A moment, with its zone."""

    def read(self, node: Node, at: Location) -> datetime:
        """Return the moment."""
        if not isinstance(node, Word):
            raise at.refuse(node, f"use a date and time, not {what(node)}")
        try:
            moment = datetime.fromisoformat(node.text)
        except ValueError as error:
            raise at.refuse(node, "use a date and time such as 2027-01-31T12:00:00Z") from error
        if moment.utcoffset() is None:
            raise at.refuse(node, "say in which zone, such as 2027-01-31T12:00:00Z for UTC")
        if not 1 < moment.year < 9999:
            raise at.refuse(node, "use a year from 2 to 9998")
        return moment.astimezone(UTC)  # PostgreSQL accepts no offset of 16 hours or more

    def plain(self, value: object) -> object:
        """Return the moment in ISO 8601."""
        return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True, slots=True)
class Nothing(ValueType):
    """A value of another type, or null."""

    kind: ValueType

    def read(self, node: Node, at: Location) -> object:
        """Return the value or None."""
        if isinstance(node, Word) and node.is_null:
            return None
        return self.kind.read(node, at)

    def plain(self, value: object) -> object:
        """Return the value as its type writes it."""
        return None if value is None else self.kind.plain(value)


@dataclass(frozen=True, slots=True)
class SetOf(ValueType):
    """A list without order or duplicates; sorted when read."""

    kind: ValueType

    def read(self, node: Node, at: Location) -> tuple[str, ...]:
        """Return the values."""
        lines: dict[str, int] = {}
        for position, item in enumerate(items(node, at)):
            with at.reading.going_on():
                value = str(self.kind.read(item, at.item(position)))
                if value in lines:
                    raise at.item(position).refuse(item, f"given twice; first in line {lines[value]}")
                lines[value] = item.line
        return tuple(sorted(lines))

    def plain(self, value: object) -> object:
        """Return a list."""
        return [self.kind.plain(item) for item in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class Parameters(ValueType):
    """Free parameters of a resource (RFC7): names with a value or a list of values."""

    def read(self, node: Node, at: Location) -> Mapping[str, object]:
        """Return them with canonical values and names as written."""
        parameters: dict[str, object] = {}
        for written, key, value in pairs(node, at, same=lambda name: composed(name).casefold()):
            spelt = composed(written)
            with at.reading.going_on():
                place = at.key(spelt[:MAX_NAME_LENGTH])
                parameters[spelt] = self._value(spelt, key, value, place)
                at.reading.lines[place.path] = key.line
        return dict(sorted(parameters.items()))

    def _value(self, spelt: str, key: Word, node: Node, at: Location) -> object:
        raw = [atom(item, at.item(i)) for i, item in enumerate(node.nodes)] if isinstance(node, ListNode) else None
        try:
            canonical_name(spelt)
            value = canonical_value(atom(node, at) if raw is None else raw)
        except ValueProblem as problem:
            raise at.refuse(key, str(problem)) from problem
        return list(value) if isinstance(value, tuple) else value

    def plain(self, value: object) -> object:
        """Return them with ``${`` escaped."""
        return _escaped_all(value)


@dataclass(frozen=True, slots=True)
class ParametersByVO(ValueType):
    """Free parameters by VO."""

    def read(self, node: Node, at: Location) -> Mapping[str, object]:
        """Return {VO: parameters}."""
        by_vo = {}
        for written, key, value in pairs(node, at, same=composed):
            vo = composed(written)
            at.reading.uses.append(Use(key.line, at.key(vo).path, "vo", vo))
            with at.reading.going_on():
                by_vo[vo] = Parameters().read(value, at.key(vo))
        return dict(sorted(by_vo.items()))

    def plain(self, value: object) -> object:
        """Return them with ``${`` escaped."""
        return _escaped_all(value)


@dataclass(frozen=True, slots=True)
class OptionsType(ValueType):
    """Options of a backend: names with values, lists or mappings of them."""

    def read(self, node: Node, at: Location) -> Mapping[str, object]:
        """Return the mapping."""
        options = {}
        for option, key, value in pairs(node, at):
            with at.reading.going_on():
                if _UNSTORABLE.search(option):
                    raise at.refuse(key, "a name holds a character that cannot be stored")
                options[option] = self._any(value, at.key(option))
        return options

    def _any(self, node: Node, at: Location) -> object:
        if isinstance(node, Pairs):
            return self.read(node, at)
        if isinstance(node, ListNode):
            return [self._any(item, at.item(position)) for position, item in enumerate(node.nodes)]
        value = atom(node, at)
        try:
            return None if value is None else canonical_value(value)
        except ValueProblem as problem:
            raise at.refuse(node, str(problem)) from problem

    def plain(self, value: object) -> object:
        """Return them with ``${`` escaped."""
        return _escaped_all(value)


def _escaped_all(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: _escaped_all(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_escaped_all(inner) for inner in value]
    return escaped(value) if isinstance(value, str) else value
