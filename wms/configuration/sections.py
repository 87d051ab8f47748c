"""Base of the sections, which convert between entries of the file and rows of the database."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Generic, TypeVar

from django.db.models import Model

from resources.domain.enums import ResourceState
from resources.domain.parameters import ValueProblem, canonical_value
from resources.models import ResourceLevel
from wms.configuration.records import SectionEntry
from wms.configuration.schema import CEEntry, QueueEntry, SiteEntry, StatusEntry

EntryT = TypeVar("EntryT", bound=SectionEntry)
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


class Section(ABC, Generic[EntryT, RowT]):
    """One kind of configured object: its rows, and their entries."""

    record: ClassVar[type[SectionEntry]]

    def __init__(self) -> None:
        self.rows: dict[Identity, RowT] = dict(self.load())
        self.entries: dict[Identity, EntryT] = {identity: self.entry_of(row) for identity, row in self.rows.items()}

    @abstractmethod
    def load(self) -> Iterator[tuple[Identity, RowT]]:
        """Yield every row by identity, with the relations that ``entry_of`` reads."""

    @abstractmethod
    def entry_of(self, row: RowT) -> EntryT:
        """Return the entry of *row*, without secrets and without the entries below it."""

    @abstractmethod
    def write(self, change: SectionChange[EntryT]) -> None:
        """Write the entry into its row; make the row if there is none."""

    def link(self, change: SectionChange[EntryT]) -> None:
        """Write references to rows that other sections write after this one."""

    def changed_secrets(self, identity: Identity, entry: EntryT) -> Iterable[str]:  # noqa: ARG002 - for sections without
        """Return the keys of secrets in *entry* that differ from the stored ones."""
        return ()


def sorted_names(names: Iterable[object]) -> tuple[str, ...]:
    """Return the names in the form of an entry: sorted, without duplicates."""
    return tuple(sorted({str(name) for name in names}))


def free(stored: object) -> Mapping[str, object]:
    """Return stored parameters and the like in the form of an entry: canonical, sorted by name."""
    canonical = _free(stored)
    return canonical if isinstance(canonical, dict) else {}


def _free(stored: object) -> object:
    if isinstance(stored, Mapping):
        return {name: _free(stored[name]) for name in sorted(stored)}
    try:
        value = canonical_value(stored)
    except ValueProblem:
        return stored
    return list(value) if isinstance(value, tuple) else value


def options_of(stored: object) -> Mapping[str, object]:
    """Return the stored options of a computing element in the form of an entry.

    Unlike that of a parameter, the order of a list matters, and a list of one value stays a list.
    """
    canonical = _option(stored)
    return canonical if isinstance(canonical, dict) else {}


def _option(stored: object) -> object:
    if isinstance(stored, Mapping):
        return {name: _option(stored[name]) for name in sorted(stored)}
    return [_option(item) for item in stored] if isinstance(stored, list) else _free(stored)


def status_of(level: ResourceLevel) -> StatusEntry:
    """Return the stored status of a level."""
    return StatusEntry(
        state=ResourceState(level.state),
        reason=level.state_reason,
        until=level.state_until,
    )


def put_level(
    level: ResourceLevel, change: SectionChange[SiteEntry] | SectionChange[CEEntry] | SectionChange[QueueEntry]
) -> None:
    """Set the columns shared by site, computing element and queue; the caller saves.

    NB: not by states.set_state, which refuses an end in the past: a file must stay valid as time passes.
    """
    entry = change.entry
    level.state, level.state_reason, level.state_until = entry.status.state, entry.status.reason, entry.status.until
    level.parameters, level.vo_parameters = dict(entry.parameters), dict(entry.vo_parameters)
    if "status" in change.changed:
        level.state_changed_at, level.state_changed_by = change.now, None
