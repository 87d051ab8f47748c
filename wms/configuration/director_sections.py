"""Sections of the configuration file: directors and limits."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar

from django.db.models import Model

from pilots.models import Director
from resources.models import ComputingElement, Site
from taskqueues.models import Limit
from wms.accounts.models import VO, Group, User
from wms.configuration.entries import SectionEntry
from wms.configuration.schema import DirectorEntry, LimitEntry, ScopeEntry
from wms.configuration.sections import Identity, RowT, Section, SectionChange


class DirectorSection(Section[DirectorEntry, Director]):
    """``directors``."""

    record: ClassVar[type[SectionEntry]] = DirectorEntry
    model: ClassVar[type[Model]] = Director


class LimitSection(Section[LimitEntry, Limit]):
    """``limits``; they have no names: the content identifies each, and the file states all of them or none."""

    record: ClassVar[type[SectionEntry]] = LimitEntry
    model: ClassVar[type[Model]] = Limit
    identified_by: ClassVar[tuple[str, ...]] = ("pk",)
    apart: ClassVar[frozenset[str]] = frozenset({"scope"})
    reads: ClassVar[tuple[str, ...]] = ("vo", "site", "ce__site", "group", "user")

    def load(self) -> Iterator[tuple[Identity, Limit]]:
        """Yield every limit."""
        limits = [row for _, row in super().load()]
        yield from zip(identities_of(map(self.entry_of, limits)), limits, strict=True)

    def stored(self, row: Limit) -> dict[str, object]:
        """Return the values of the keys."""
        of_site = row.ce.site if row.ce else row.site
        vo, site, ce, group, user = map(_name, (row.vo, of_site, row.ce, row.group, row.user))
        scope = ScopeEntry(vo=vo, site=site, ce=ce, group=group, user=user, job_type=row.job_type or None)
        return super().stored(row) | {"scope": scope}

    def put(self, row: Limit, change: SectionChange[LimitEntry]) -> None:
        """Set the columns; a limit with an old identity is changed, and keeps its counters."""
        super().put(row, change)
        scope = change.entry.scope
        row.vo, row.site = self._row(VO, scope.vo), self._row(Site, scope.site)
        row.group, row.user = self._row(Group, scope.group), self._row(User, scope.user)
        row.ce = self._row(ComputingElement, scope.ce, str(scope.site))
        row.job_type = scope.job_type or ""

    def _row(self, model: type[RowT], name: str | None, *above: str) -> RowT | None:
        return None if name is None else self.sections[model].rows[(*above, name)]

    def remove(self, identity: Identity) -> None:
        """Remove a limit that the file no longer states."""
        self.rows.pop(identity).delete()


def _name(row: Model | None) -> str | None:
    return None if row is None else str(row)


def identities_of(entries: Iterable[LimitEntry]) -> Iterator[Identity]:
    """Yield the identity of each limit: its whole content, and its number among equal ones."""
    seen: Counter[str] = Counter()
    for entry in entries:
        content = repr(entry)
        yield content, str(seen[content])
        seen[content] += 1
