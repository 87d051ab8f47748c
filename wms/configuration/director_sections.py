"""Sections of the configuration file: directors and limits."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import ClassVar

from pilots.models import Director
from taskqueues.models import Limit
from wms.configuration.account_sections import GroupSection, UserSection, VOSection
from wms.configuration.director_kinds import DirectorKind
from wms.configuration.records import SectionEntry
from wms.configuration.resource_sections import CESection, SiteSection
from wms.configuration.schema import DirectorEntry, LimitEntry, ScopeEntry
from wms.configuration.sections import EntryT, Identity, RowT, Section, SectionChange, sorted_names


class DirectorSection(Section[DirectorEntry, Director]):
    """``directors``."""

    record: ClassVar[type[SectionEntry]] = DirectorEntry

    def __init__(self, sites: SiteSection) -> None:
        self._sites = sites
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, Director]]:
        """Yield every director."""
        for director in Director.objects.prefetch_related("sites").order_by("name"):
            yield (director.name,), director

    def entry_of(self, row: Director) -> DirectorEntry:
        """Return the entry of the director."""
        return DirectorEntry(
            name=row.name,
            kind=DirectorKind(row.kind),
            sites=sorted_names(site.name for site in row.sites.all()),
            job_types=sorted_names(row.job_types),
            pilots_per_cycle=row.pilots_per_cycle,
            private_fraction=row.private_fraction,
        )

    def write(self, change: SectionChange[DirectorEntry]) -> None:
        """Write the director."""
        entry = change.entry
        row = self.rows.setdefault(change.identity, Director(name=entry.name))
        row.kind, row.job_types = entry.kind, list(entry.job_types)
        row.pilots_per_cycle, row.private_fraction = entry.pilots_per_cycle, entry.private_fraction
        row.save()
        if "sites" in change.changed:
            row.sites.set([self._sites.rows[name,] for name in entry.sites])


class LimitSection(Section[LimitEntry, Limit]):
    """``limits``; they have no names: the content identifies each, and the file states all of them or none."""

    record: ClassVar[type[SectionEntry]] = LimitEntry

    def __init__(
        self, *, vos: VOSection, groups: GroupSection, users: UserSection, sites: SiteSection, ces: CESection
    ) -> None:
        self._vos, self._groups, self._users, self._sites, self._ces = vos, groups, users, sites, ces
        super().__init__()

    def load(self) -> Iterator[tuple[Identity, Limit]]:
        """Yield every limit."""
        limits = list(Limit.objects.select_related("vo", "site", "ce__site", "group", "user").order_by("pk"))
        yield from zip(identities_of(map(self.entry_of, limits)), limits, strict=True)

    def entry_of(self, row: Limit) -> LimitEntry:
        """Return the entry of the limit."""
        site = row.ce.site if row.ce is not None else row.site
        return LimitEntry(
            scope=ScopeEntry(
                vo=row.vo.name if row.vo else None,
                site=site.name if site else None,
                ce=row.ce.name if row.ce else None,
                group=row.group.name if row.group else None,
                user=row.user.username if row.user else None,
                job_type=row.job_type or None,
            ),
            running=row.running,
            waiting=row.waiting,
            cpu_s_per_day=row.cpu_s_per_day,
            delay_s=row.delay_s,
            burst=row.burst,
        )

    def write(self, change: SectionChange[LimitEntry]) -> None:
        """Write the limit; one with an old identity is changed, and keeps its counters."""
        entry, scope = change.entry, change.entry.scope
        row = self.rows.setdefault(change.identity, Limit())
        row.vo, row.site = _row(self._vos, scope.vo), _row(self._sites, scope.site)
        row.ce = None if scope.ce is None else self._ces.rows[str(scope.site), scope.ce]
        row.group, row.user = _row(self._groups, scope.group), _row(self._users, scope.user)
        row.job_type = scope.job_type or ""
        row.running, row.waiting, row.cpu_s_per_day = entry.running, entry.waiting, entry.cpu_s_per_day
        row.delay_s, row.burst = entry.delay_s, entry.burst
        row.save()

    def remove(self, identity: Identity) -> None:
        """Remove a limit that the file no longer states."""
        self.rows.pop(identity).delete()


def _row(section: Section[EntryT, RowT], name: str | None) -> RowT | None:
    return None if name is None else section.rows[name,]


def identities_of(entries: Iterable[LimitEntry]) -> Iterator[Identity]:
    """Yield the identity of each limit: its whole content, and its number among equal ones."""
    seen: Counter[str] = Counter()
    for entry in entries:
        content = repr(entry)
        yield content, str(seen[content])
        seen[content] += 1
