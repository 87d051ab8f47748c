"""Entries: dataclasses whose annotations say what a mapping of the file may hold (ADR 51), read and written here."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from functools import partial
from types import MappingProxyType, NoneType
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

from wms.configuration.document import parse
from wms.configuration.problems import ConfigurationError, Remark, Unreadable
from wms.configuration.reading import Location, Reading, ValueReader, items, pairs, shown
from wms.configuration.value_types import flag, one_of, whole_number
from wms.kernel.names import did_you_mean
from wms.kernel.yaml_text import Node, ScalarNode
from wms.wire.amounts import AMOUNT

EntryT = TypeVar("EntryT", bound="SectionEntry")
#: Values by key. NB: Any: each was read by the reader in the annotation of its key.
Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place of an entry in the file; empty for an entry made from the database."""

    line: int = 0
    path: str = ""
    #: Line of each stated key.
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: Some key could not be read, so that the entry is incomplete.
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionEntry:
    """Base of all entries; equal if their content is, wherever they stand."""

    #: Kind of a named entry, such as "site"; empty: a part of another entry, compared as one value.
    noun: ClassVar[str] = ""
    #: The key that identifies a named entry; empty: its whole content.
    named_by: ClassVar[str] = "name"
    ignores_case: ClassVar[bool] = False
    #: The key of the named entries below this one.
    children: ClassVar[str] = ""
    #: Keys that are written but never exported.
    secrets: ClassVar[frozenset[str]] = frozenset()
    #: Keys at their default are not exported.
    terse: ClassVar[bool] = False

    source: Source = field(default=Source(), compare=False, repr=False)

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another; '' is the entry itself."""
        return iter(())

    def settled(self) -> Self:
        """Return the entry with derived values filled in."""
        return self

    def name_of(self) -> str:
        """Return what identifies it in its list."""
        name = str(getattr(self, self.named_by)) if self.named_by else repr(self)
        return name.casefold() if self.ignores_case else name

    def remark(self, key: str, sentence: str) -> Remark:
        """Return a problem with one key of the entry."""
        line = self.source.lines.get(key, self.source.line)
        dot = "." if self.source.path and key else ""
        return Remark(line, f"{self.source.path}{dot}{key}", sentence)


# ---- Keys ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Key:
    """One key of an entry."""

    reader: ValueReader
    #: MISSING: the key is required.
    default: object


_KEYS: dict[type[SectionEntry], Mapping[str, Key]] = {}


def keys_of(record: type[SectionEntry]) -> Mapping[str, Key]:
    """Return the keys that *record* declares, in order."""
    if record not in _KEYS:
        hints = get_type_hints(record, include_extras=True)
        _KEYS[record] = {
            part.name: Key(whole_number(AMOUNT[part.name].least), part.default)
            if hints[part.name] is int
            else Key(_reader_of(hints[part.name]), _default(part))
            for part in sorted(fields(record), key=partial(_position, record))
            if part.name != "source"
        }
    return _KEYS[record]


def _position(record: type[SectionEntry], part: "Field[object]") -> tuple[int, int]:
    """Return the position of a key: amounts, most of them inherited, stand where the record declares the first."""
    own = list(record.__annotations__)
    if part.name in AMOUNT:
        first = next((place for place, name in enumerate(own) if name in AMOUNT), len(own))
        return first, list(AMOUNT).index(part.name)
    return own.index(part.name) if part.name in own else -1, 0


def _default(declared: "Field[object]") -> object:
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


def _reader_of(hint: Any) -> ValueReader:  # noqa: ANN401 - a type, or what typing makes of it
    """Return the reader that an annotation names, or the one for its type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        reader: ValueReader = hint.__metadata__[-1]
        return reader
    if origin is tuple:
        if isinstance(inner[0], type) and issubclass(inner[0], SectionEntry):
            return ValueReader("list of mappings", partial(_read_entries, inner[0]), entry=inner[0])
        reader = _reader_of(inner[0])
        return ValueReader(f"list: {reader.accepts}", partial(_read_set, reader))
    if NoneType in inner:
        reader = _reader_of(inner[0])
        return ValueReader(f"{reader.accepts}, or null", partial(_read_or_none, reader), entry=reader.entry)
    if issubclass(hint, SectionEntry):
        return ValueReader("mapping", partial(_read_entry, hint), entry=hint)
    return flag if hint is bool else one_of(hint)


# ---- Reading ---------------------------------------------------------------------------------------------------------


def read(source: bytes, record: type[EntryT], reading: Reading) -> EntryT:
    """Return the entry that a whole file states; problems that leave something to check are noted in *reading*.

    Raises:
        ConfigurationError: nothing is left; with all problems.
    """
    try:
        return _read_entry(record, parse(source), Location(reading))
    except Unreadable as error:
        raise ConfigurationError(reading.problems) from error


def _read_entry(record: type[EntryT], node: Node, at: Location) -> EntryT:
    """Return the entry of a mapping with the keys of *record*; raise Unreadable only if a required key has no value."""
    keys = keys_of(record)
    required = [name for name, key in keys.items() if key.default is MISSING]
    noted = len(at.reading.problems)
    values: Values = {}
    lines: dict[str, int] = {}
    for name, word, value in pairs(node, at):
        if name not in keys:
            at.key(shown(word)).refuse(word, f"unknown key.{did_you_mean(name[:64], keys)}")
            continue
        lines[name] = word.line
        with suppress(Unreadable):
            values[name] = keys[name].reader(value, at.key(name))
    for name in required:
        if name not in lines:
            at.refuse(node, f"{name} is missing")
    if record.noun and record.named_by in values:
        at.reading.names.setdefault(record.noun, set()).add(str(values[record.named_by]))
    if not values.keys() >= {*required}:
        raise Unreadable
    broken = len(at.reading.problems) > noted
    source = Source(line=node.line, path=at.path, lines=MappingProxyType(lines), broken=broken)
    entry = record(**values, source=source)
    if not broken and (not entry.noun or not entry.named_by):
        # Parts of an entry are checked here; named entries after they are merged with the stored ones.
        at.reading.problems += [entry.remark(key, sentence) for key, sentence in entry.mistakes()]
    return entry


def named_lists(record: type[EntryT]) -> ValueReader:
    """Return the reader of a mapping of names to lists; each item becomes an entry with two keys, name and list."""

    def read(node: Node, at: Location) -> tuple[EntryT, ...]:
        (name, key_of_name), (content, key_of_list) = keys_of(record).items()
        entries = []
        for spelt, word, value in pairs(node, at):
            inner = at.key(shown(word))
            with suppress(Unreadable):
                values: Values = {
                    name: key_of_name.reader(ScalarNode(word.line, spelt, quoted=True), inner),
                    content: key_of_list.reader(value, inner),
                }
                lines = MappingProxyType({name: word.line, content: word.line})
                entries.append(record(**values, source=Source(line=word.line, path=inner.path, lines=lines)))
        return tuple(entries)

    return ValueReader("mapping of names to lists", read, entry=record)


def _read_entries(record: type[EntryT], node: Node, at: Location) -> tuple[EntryT, ...]:
    """Return the readable entries of a list without duplicates."""
    by_name: dict[str, EntryT] = {}
    for position, item in enumerate(items(node, at)):
        with suppress(Unreadable):
            entry = _read_entry(record, item, at.item(position))
            same = by_name.setdefault(entry.name_of(), entry)
            if same is not entry:
                sentence = f"given twice; first in line {same.source.line}"
                at.reading.problems.append(entry.remark(entry.named_by, sentence))
    return tuple(by_name.values())


def _read_set(reader: ValueReader, node: Node, at: Location) -> tuple[str, ...]:
    """Return the texts of a list without order or duplicates, sorted."""
    lines: dict[str, int] = {}
    for position, item in enumerate(items(node, at)):
        with suppress(Unreadable):
            value = str(reader(item, at.item(position)))
            if value in lines:
                raise at.item(position).refuse(item, f"given twice; first in line {lines[value]}")
            lines[value] = item.line
    return tuple(sorted(lines))


def _read_or_none(reader: ValueReader, node: Node, at: Location) -> object:
    return None if isinstance(node, ScalarNode) and node.is_null else reader(node, at)


# ---- Writing ---------------------------------------------------------------------------------------------------------


def as_written(value: object) -> object:
    """Return a value as it is written in YAML; a whole entry without its secrets."""
    if isinstance(value, SectionEntry):
        keys = keys_of(type(value)).items()
        value = {
            name: getattr(value, name)
            for name, key in keys
            if name not in value.secrets and not (value.terse and getattr(value, name) == key.default)
        }
    if isinstance(value, Mapping):
        return {name: as_written(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_written(inner) for inner in value]
    if isinstance(value, str):
        return str(value).replace("${", "$${")
    if isinstance(value, datetime):
        return value.isoformat()
    return int(value) if isinstance(value, float) and value.is_integer() else value
