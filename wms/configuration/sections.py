"""Sections: how the entries of one kind are read from their rows in the database, and written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

from django.contrib.postgres.fields import ArrayField
from django.db.models import Field, ForeignKey, JSONField, Model

from resources.domain.parameters import ValueProblem, canonical_value
from wms.configuration.entries import EntryT, keys_of

RowT = TypeVar("RowT", bound=Model)

#: Key of a row within its section: a name, after the names of the levels above it.
Identity = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionChange(Generic[EntryT]):
    """One object to be added or changed."""

    identity: Identity
    #: The whole object after the change.
    entry: EntryT
    #: Keys that differ from the stored ones; for a new object all.
    changed: frozenset[str]
    is_new: bool
    now: datetime


class Section(Generic[EntryT, RowT]):
    """One kind of configured object: its rows, and their entries.

    A key is the column of that name, or of the name in ``columns``: a value, a list or a mapping; the name of a row of
    another section, or names of several. Subclasses read and write the keys ``apart``.
    """

    # NB: Any: a class variable has no type parameter.
    record: ClassVar[type[Any]]
    model: ClassVar[type[Any]]
    #: Names of columns, by key, where they differ.
    columns: ClassVar[Mapping[str, str]] = MappingProxyType({})
    #: Keys that are something else than a column.
    apart: ClassVar[frozenset[str]] = frozenset()
    #: Lookups of the values that identify a row.
    identified_by: ClassVar[tuple[str, ...]] = ("name",)
    #: Further relations that ``stored`` reads.
    reads: ClassVar[tuple[str, ...]] = ()

    def __init__(self, sections: "dict[type[Model], AnySection]") -> None:
        """Load the section, and add it to *sections*: those to whose rows its own refer, by model."""
        sections[self.model] = self
        self.sections = sections
        keys = keys_of(self.record).keys() - self.record.secrets - {self.record.children} - self.apart
        # NB: Any: for mypy a column that refers to nothing has no model.
        self._columns: dict[str, Any] = {key: self.model._meta.get_field(self.columns.get(key, key)) for key in keys}
        self.rows: dict[Identity, RowT] = dict(self.load())
        self.entries: dict[Identity, EntryT] = {identity: self.entry_of(row) for identity, row in self.rows.items()}

    def load(self) -> Iterable[tuple[Identity, RowT]]:
        """Yield every row by identity, with the relations that ``stored`` reads."""
        above = [lookup.rpartition("__")[0] for lookup in self.identified_by if "__" in lookup]
        read = [column.name for column in self._columns.values() if column.is_relation]
        rows = self.model.objects.prefetch_related(*above, *read, *self.reads)
        for row in rows.order_by(*self.identified_by):
            yield tuple(attrgetter(lookup.replace("__", "."))(row) for lookup in self.identified_by), row

    def entry_of(self, row: RowT) -> EntryT:
        """Return the entry of *row*, without secrets and without the entries below it."""
        entry: EntryT = self.record(**self.stored(row))
        return entry

    def stored(self, row: RowT) -> dict[str, object]:
        """Return the values of the keys in the form of an entry."""
        return {key: _stored(column, getattr(row, column.name)) for key, column in self._columns.items()}

    def put(self, row: RowT, change: SectionChange[EntryT]) -> None:
        """Set the columns, before the row is saved."""
        for key, column in self._columns.items():
            value = getattr(change.entry, key)
            if isinstance(column, ForeignKey) and value is not None:
                value = self.sections[column.related_model].rows[value,]
            if not column.many_to_many:
                setattr(row, column.name, list(value) if isinstance(value, tuple) else value)

    def write(self, change: SectionChange[EntryT]) -> RowT:
        """Write the entry into its row; make the row if there is none."""
        row = self.rows.setdefault(change.identity, self.model())
        self.put(row, change)
        row.save()
        return row

    def link(self, change: SectionChange[EntryT]) -> None:
        """Write references to several rows, which other sections may write after this one."""
        for key, column in self._columns.items():
            if column.many_to_many and key in change.changed:
                rows = self.sections[column.related_model].rows
                getattr(self.rows[change.identity], column.name).set(rows[name,] for name in getattr(change.entry, key))

    def changed_secrets(self, _identity: Identity, _entry: EntryT) -> Iterable[str]:
        """Return the keys of secrets in *entry* that differ from the stored ones."""
        return ()


#: NB: Any: the sections differ in type, and each change is written by its own section.
AnySection = Section[Any, Any]
AnyChange = SectionChange[Any]


def _stored(column: "Field[Any, Any]", value: Any) -> object:  # noqa: ANN401 - of any column
    """Return the value of a column in the form of an entry; rows that others refer to are shown as their names."""
    if column.many_to_many:
        return sorted_names(value.all())
    if isinstance(column, ArrayField):
        return sorted_names(value)
    if isinstance(column, JSONField):
        return free(value)
    return str(value) if isinstance(value, Model) else value


def sorted_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return the names in the form of an entry: sorted, without duplicates."""
    return tuple(sorted({str(name) for name in names}))


def free(stored: object, *, one_is_a_list: bool = False) -> object:
    """Return stored parameters or options in the form of an entry: canonical, sorted by name.

    Args:
        stored: JSON.
        one_is_a_list: in options the order of a list matters, and a list of one value stays a list.
    """
    if isinstance(stored, Mapping):
        return {name: free(stored[name], one_is_a_list=one_is_a_list) for name in sorted(stored)}
    if isinstance(stored, list) and one_is_a_list:
        return [free(item, one_is_a_list=True) for item in stored]
    try:
        value = canonical_value(stored)
    except ValueProblem:
        return stored
    return list(value) if isinstance(value, tuple) else value
