"""Records: classes whose annotations define the keys of a mapping, and how they are read and written."""

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar, get_origin, get_type_hints

from wms.configuration.document import Node, Word
from wms.configuration.problems import Remark, Unreadable
from wms.configuration.reading import Location, ValueType, items, pairs, shown
from wms.kernel.names import did_you_mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The place of an entry in the file; empty for an entry made from the database."""

    line: int = 0
    path: str = ""
    #: Line of each stated key.
    lines: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    #: Some key could not be read, so that the entry is incomplete.
    broken: bool = False


NOWHERE = Source()


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionEntry:
    """Base of all records; equal if their content is, wherever they stand."""

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

    source: Source = field(default=NOWHERE, compare=False, repr=False)

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another; '' is the entry itself."""
        return iter(())

    def settled(self) -> Self:
        """Return the entry with derived values filled in."""
        return self

    def name_of(self) -> str:
        """Return the name that identifies it."""
        name = str(getattr(self, self.named_by))
        return name.casefold() if self.ignores_case else name

    def remark(self, key: str, sentence: str) -> Remark:
        """Return a problem with one key of the entry."""
        line = self.source.lines.get(key, self.source.line)
        dot = "." if self.source.path and key else ""
        return Remark(line, f"{self.source.path}{dot}{key}", sentence)


EntryT = TypeVar("EntryT", bound=SectionEntry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a record."""

    name: str
    kind: ValueType
    required: bool
    default: object


_KEYS: dict[type[SectionEntry], tuple[Key, ...]] = {}


def keys_of(record: type[SectionEntry]) -> tuple[Key, ...]:
    """Return the keys that *record* declares, in order."""
    if record not in _KEYS:
        hints = get_type_hints(record, include_extras=True)
        _KEYS[record] = tuple(_key(part, hints[part.name]) for part in fields(record) if part.name != "source")
    return _KEYS[record]


def _key(declared: "Field[object]", hint: object) -> Key:
    notes = getattr(hint, "__metadata__", ()) if get_origin(hint) is Annotated else ()
    (kind,) = (note for note in notes if isinstance(note, ValueType))
    required = declared.default is MISSING and declared.default_factory is MISSING
    return Key(
        name=declared.name,
        kind=kind,
        required=required,
        default=None if required else _default(declared),
    )


def _default(declared: "Field[object]") -> object:
    return declared.default if declared.default_factory is MISSING else declared.default_factory()


@dataclass(frozen=True, slots=True)
class RecordOf(ValueType, Generic[EntryT]):
    """A mapping with the keys of a record."""

    record: type[EntryT]

    def read(self, node: Node, at: Location) -> EntryT:
        """Return the entry; raise Unreadable only if a required key has no value."""
        known = {key.name: key for key in keys_of(self.record)}
        # NB: Any: each value was read by the kind in its annotation.
        values: dict[str, Any] = {}
        lines: dict[str, int] = {}
        before = len(at.reading.problems)
        for spelt, word, value in pairs(node, at):
            key = known.get(spelt)
            if key is None:
                at.key(shown(word)).refuse(word, f"unknown key.{did_you_mean(spelt[:64], known)}")
                continue
            lines[key.name] = word.line
            with at.reading.going_on():
                values[key.name] = key.kind.read(value, at.key(key.name))
        for key in known.values():
            if key.required and key.name not in lines:
                at.refuse(node, f"{key.name} is missing")
        self._register(values, at)
        if any(key.required and key.name not in values for key in known.values()):
            raise Unreadable
        broken = len(at.reading.problems) > before
        source = Source(line=node.line, path=at.path, lines=MappingProxyType(lines), broken=broken)
        entry = self.record(**values, source=source)
        if not broken and (not entry.noun or not entry.named_by):
            # Parts of an entry are checked here; named entries after they are merged with the stored ones.
            at.reading.problems += [entry.remark(key, sentence) for key, sentence in entry.mistakes()]
        return entry

    def _register(self, values: Mapping[str, object], at: Location) -> None:
        if self.record.noun and self.record.named_by in values:
            at.reading.names.setdefault(self.record.noun, set()).add(str(values[self.record.named_by]))

    def plain(self, value: object) -> object:
        """Return the keys with their values, without secrets."""
        return {
            key.name: key.kind.plain(getattr(value, key.name))
            for key in keys_of(self.record)
            if key.name not in self.record.secrets
            and not (self.record.terse and getattr(value, key.name) == key.default)
        }


@dataclass(frozen=True, slots=True)
class ListOf(ValueType, Generic[EntryT]):
    """A list of records without duplicates."""

    record: type[EntryT]

    def read(self, node: Node, at: Location) -> tuple[EntryT, ...]:
        """Return the readable entries."""
        by_name: dict[object, EntryT] = {}
        for position, item in enumerate(items(node, at)):
            with at.reading.going_on():
                entry = RecordOf(self.record).read(item, at.item(position))
                same = by_name.setdefault(entry.name_of() if entry.named_by else repr(entry), entry)
                if same is not entry:
                    at.reading.problems.append(
                        entry.remark(entry.named_by, f"given twice; first in line {same.source.line}")
                    )
        return tuple(by_name.values())

    def plain(self, value: object) -> object:
        """Return a list of mappings."""
        return [RecordOf(self.record).plain(entry) for entry in value] if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True)
class NamedLists(ValueType, Generic[EntryT]):
    """A mapping of names to lists; each item becomes a record with two keys, the name and the list."""

    record: type[EntryT]

    def read(self, node: Node, at: Location) -> tuple[EntryT, ...]:
        """Return the readable entries."""
        name, content = keys_of(self.record)
        entries = []
        for spelt, word, value in pairs(node, at):
            inner = at.key(shown(word))
            with at.reading.going_on():
                values: dict[str, Any] = {
                    name.name: name.kind.read(Word(word.line, spelt, quoted=True), inner),
                    content.name: content.kind.read(value, inner),
                }
                lines = MappingProxyType({name.name: word.line, content.name: word.line})
                entries.append(self.record(**values, source=Source(line=word.line, path=inner.path, lines=lines)))
        return tuple(entries)

    def plain(self, value: object) -> object:
        """Return a mapping."""
        name, content = keys_of(self.record)
        return {
            getattr(entry, name.name): content.kind.plain(getattr(entry, content.name))
            for entry in (value if isinstance(value, tuple) else ())
        }
