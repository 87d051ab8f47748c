"""The plan: all changes that a file makes, computed before anything is written."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

import yaml
from django.conf import settings
from django.db.models import Model

from pilots.agent.node.benchmark import ERROR as SPEED_ERROR
from pilots.services.ce_backends import flaw_of_options
from resources.domain.enums import SiteTokenPurpose
from resources.services.ce_rules import refusal
from taskqueues.domain.definition import cpu_segment_s
from taskqueues.domain.limits import bounded_by_both
from wms.accounts.domain import digest_of
from wms.configuration.account_sections import GroupSection, UserSection, VOSection
from wms.configuration.director_sections import DirectorSection, LimitSection, identities_of
from wms.configuration.entries import EntryT, SectionEntry, Values, as_written, keys_of
from wms.configuration.problems import Remark
from wms.configuration.reading import Reading, Use
from wms.configuration.resource_schema import QueueEntry, SiteEntry, StorageElementEntry
from wms.configuration.resource_sections import (
    CESection,
    DefinitionSection,
    PlatformSection,
    QueueSection,
    SiteSection,
    StorageElementSection,
    tokens_in_use,
    tokens_of,
)
from wms.configuration.schema import Configuration, GroupEntry, LimitEntry, ScopeEntry
from wms.configuration.sections import AnyChange, AnySection, Identity, SectionChange
from wms.jobs.domain.description import DEFAULT_CPU_TIME_S
from wms.kernel.names import did_you_mean, listed


class StoredConfiguration:
    """The stored configuration by section, in the order of references."""

    def __init__(self) -> None:
        sections: dict[type[Model], AnySection] = {}
        self.vos = VOSection(sections)
        self.groups = GroupSection(sections)
        self.users = UserSection(sections)
        self.definitions = DefinitionSection(sections)
        self.platforms = PlatformSection(sections)
        self.storage_elements = StorageElementSection(sections)
        self.sites = SiteSection(sections)
        self.ces = CESection(sections)
        self.queues = QueueSection(sections)
        self.directors = DirectorSection(sections)
        self.limits = LimitSection(sections)

    def of_resources(self) -> tuple[AnySection, ...]:
        """Return the sections on which the eligible queues of a job depend."""
        return (self.definitions, self.sites, self.ces, self.queues)

    def named(self) -> Mapping[str, AnySection]:
        """Return the sections whose objects other sections refer to, by noun."""
        sections = (self.vos, self.groups, self.users, self.storage_elements, self.sites, self.ces)
        return {section.record.noun: section for section in sections}


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldDifference:
    """Another value of one key, in YAML."""

    name: str
    before: str = ""
    after: str = ""
    #: The values are not shown.
    is_secret: bool = False

    def __str__(self) -> str:
        return f"{self.name} changed" if self.is_secret else f"{self.name} {self.before} → {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What the file changes in one row."""

    #: + added, ~ changed, - removed.
    sign: str
    #: Kind and name; of a limit, which has no name, its content.
    row: str
    fields: tuple[FieldDifference, ...] = ()

    def __str__(self) -> str:
        changed = ", ".join(map(str, self.fields))
        return f"{self.sign} {self.row}: {changed}" if self.sign == "~" else f"{self.sign} {self.row}"


@dataclass(slots=True)
class Plan:
    """All changes, in the order of writing."""

    changes: list[tuple[AnySection, AnyChange]] = field(default_factory=list)
    removed_limits: list[Identity] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)
    problems: list[Remark] = field(default_factory=list)


class FileBounds(Protocol):
    """What the author of a file may name and change."""

    def may_name(self, noun: str, name: str) -> bool:
        """Return whether the author may refer to a stored object."""

    def is_limit_of_others(self, identity: Identity) -> bool:
        """Return whether a stored limit is not the author's; the file does not remove it."""

    def bounded(self, section: AnySection, identity: Identity, entry: SectionEntry) -> SectionEntry | None:
        """Return the entry with what the author does not see of it; None: it is refused, which has been noted."""

    def shown(self, section: AnySection, entry: SectionEntry) -> SectionEntry:
        """Return the entry without what the author does not see of it."""


def plan(
    file: Configuration,
    *,
    database: StoredConfiguration,
    reading: Reading,
    now: datetime,
    bounds: FileBounds | None = None,
) -> Plan:
    """Return the changes that *file* makes to *database*; errors of references are added to the reading.

    Args:
        file: as read.
        database: the stored configuration.
        reading: of the file.
        now: time of the call.
        bounds: of the file's author; None: whoever has an account of the server, who may change all.
    """
    _check_uses(reading, database=database, bounds=bounds)
    new_plan = Plan()
    if bounds is None:  # else the file has no options
        _check_options(file, new_plan, database=database, reading=reading)
    for section, identity, stated in _entries(file, database=database):
        entry = stated if bounds is None else bounds.bounded(section, identity, stated)
        if entry is not None:
            _compare(new_plan, section, identity, entry, now=now, bounds=bounds)
    if "limits" in file.source.lines:
        _compare_limits(new_plan, file, database=database, reading=reading, now=now, bounds=bounds)
    new_plan.problems += [*_taken_dns(new_plan, database=database), *_taken_tokens(file)]
    _check_attached_elements(new_plan, file, database=database, reading=reading)
    _check_wall_times(new_plan, file, database=database, reading=reading)
    return new_plan


def _entries(
    file: Configuration, *, database: StoredConfiguration
) -> Iterator[tuple[AnySection, Identity, SectionEntry]]:
    """Yield every named entry of the file with its section; entries come after those that they refer to."""
    for vo in file.vos:
        yield database.vos, (vo.name,), replace(vo, managers=_known_managers(vo.managers, file, database=database))
    simple: tuple[tuple[AnySection, tuple[SectionEntry, ...]], ...] = (
        (database.groups, file.groups),
        (database.users, file.users),
        (database.definitions, file.requirement_definitions),
        (database.platforms, file.platforms),
        (database.storage_elements, file.storage_elements),
    )
    for section, entries in simple:
        for entry in entries:
            yield section, (entry.name_of(),), entry
    for site in file.sites:
        yield database.sites, (site.name,), site
        for ce in site.ces:
            yield database.ces, (site.name, ce.name), ce
            for queue in ce.queues:
                yield database.queues, (site.name, ce.name, queue.name), queue
    for director in file.directors:
        yield database.directors, (director.name,), director


def _known_managers(managers: Iterable[str], file: Configuration, *, database: StoredConfiguration) -> tuple[str, ...]:
    users = {user.username for user in file.users}
    return tuple(name for name in managers if name in users or (name,) in database.users.rows)


# ---- References ------------------------------------------------------------------------------------------------------


def _check_uses(reading: Reading, *, database: StoredConfiguration, bounds: FileBounds | None) -> None:
    known = {
        noun: {name for *_, name in section.rows if bounds is None or bounds.may_name(noun, name)}
        | reading.names.get(noun, set())
        for noun, section in database.named().items()
    }
    for use in reading.uses:
        if use.name not in known[use.of]:
            _note_unknown(use, sorted(known[use.of]), reading)


def _note_unknown(use: Use, known: list[str], reading: Reading) -> None:
    hint = did_you_mean(use.name, known)
    sentence = f'there is no {use.of} "{use.name}", neither in the file nor in the database'
    if use.may_be_missing:
        reading.warnings.append(Remark(use.line, use.path, f"{sentence}; it is left out until it exists.{hint}"))
    else:
        reading.problems.append(Remark(use.line, use.path, f"{sentence}.{hint}"))


def _check_options(file: Configuration, new_plan: Plan, *, database: StoredConfiguration, reading: Reading) -> None:
    """Refuse CEs that this server would not serve, and warn of options that their backends would refuse.

    CEs are checked as they will be stored: an entry without a type keeps the stored one.
    """
    for site in file.sites:
        for stated in site.ces:
            ce = _merged(database.ces.entries.get((site.name, stated.name)), stated)
            if not ce.type:
                if not stated.source.broken:
                    kinds = ", ".join(settings.WMS_BACKENDS)
                    new_plan.problems.append(stated.remark("", f"type is missing; give one of: {kinds}"))
                continue
            if (refused := refusal(ce.type, ce.options, ce.identity)) is not None:
                field, sentence = refused
                new_plan.problems.append(stated.remark(field, sentence.rstrip(".")))
            elif flaw := flaw_of_options(site.name, ce.name, ce.type, ce.options, ce.identity):
                sentence = f"{flaw} No pilots are sent there until this is corrected."
                reading.warnings.append(stated.remark("options", sentence))


# ---- Differences -----------------------------------------------------------------------------------------------------


def _compare(
    new_plan: Plan,
    section: AnySection,
    identity: Identity,
    entry: SectionEntry,
    *,
    now: datetime,
    bounds: FileBounds | None,
) -> None:
    stored: SectionEntry | None = section.entries.get(identity)
    keys = keys_of(section.record).keys() - {section.record.children}
    merged = _merged(stored, entry).settled()
    changed = frozenset(key for key in keys if stored is None or _differ(stored, merged, key))
    secrets = frozenset(section.changed_secrets(identity, entry))
    if stored is not None:
        changed = changed - section.record.secrets | secrets
    if not changed:
        return
    if not entry.source.broken:
        new_plan.problems += [merged.remark(key, sentence) for key, sentence in merged.mistakes()]
        new_plan.problems += _moved_group(section, stored, merged)
    change = SectionChange(identity=identity, entry=merged, changed=changed, is_new=stored is None, now=now)
    new_plan.changes.append((section, change))
    if bounds is not None:
        stored, merged = stored and bounds.shown(section, stored), bounds.shown(section, merged)
    new_plan.differences.append(_difference(section, identity, stored, merged, changed=changed))


def _merged(stored: EntryT | None, entry: EntryT) -> EntryT:
    """Return the stored entry with the keys of the file; other keys keep their values."""
    if stored is None:
        return entry
    stated: Values = {name: getattr(entry, name) for name in entry.source.lines if name != entry.children}
    return replace(stored, source=entry.source, **stated)


def _differ(stored: SectionEntry, merged: SectionEntry, key: str) -> bool:
    before, after = getattr(stored, key), getattr(merged, key)
    if isinstance(before, Mapping):  # NB: in Python True equals 1, as a parameter it does not
        return json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True)
    return bool(before != after)


def _moved_group(section: AnySection, stored: SectionEntry | None, merged: SectionEntry) -> Iterator[Remark]:
    if isinstance(section, GroupSection) and stored is not None:
        before, after = getattr(stored, "vo", ""), getattr(merged, "vo", "")
        if before != after:
            yield merged.remark(
                "vo", f"a group cannot leave its VO, which is {before}; create another group in {after}"
            )


def _difference(
    section: AnySection,
    identity: Identity,
    stored: SectionEntry | None,
    merged: SectionEntry,
    *,
    changed: frozenset[str],
) -> Difference:
    row = f"{section.record.noun} {'/'.join([*identity[:-1], getattr(merged, section.record.named_by)])}"
    if stored is None:
        stated = [key for key in keys_of(section.record) if key in merged.source.lines and key in changed]
        new = [FieldDifference(name=key, after=_shown(key, merged)) for key in stated if key not in merged.secrets]
        return Difference(sign="+", row=row, fields=tuple(new))
    return Difference(
        sign="~",
        row=row,
        fields=tuple(
            FieldDifference(name=key, is_secret=True)
            if key in section.record.secrets
            else FieldDifference(name=key, before=_shown(key, stored), after=_shown(key, merged))
            for key in keys_of(section.record)
            if key in changed
        ),
    )


def _shown(key: str, entry: SectionEntry) -> str:
    value = as_written(getattr(entry, key))
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return text.removesuffix("...\n").strip()


# ---- Limits ----------------------------------------------------------------------------------------------------------


def _compare_limits(
    new_plan: Plan,
    file: Configuration,
    *,
    database: StoredConfiguration,
    reading: Reading,
    now: datetime,
    bounds: FileBounds | None,
) -> None:
    # Duplicates count once.
    stated = dict.fromkeys(_placed(entry, file, database=database, reading=reading) for entry in file.limits)
    planned = dict(zip(identities_of(stated), stated, strict=True))
    names = frozenset(keys_of(LimitEntry))
    new_plan.problems += _mistakes_of_limits(new_plan, stated, database=database, bounds=bounds)
    gone = {
        identity: entry
        for identity, entry in database.limits.entries.items()
        if identity not in planned and (bounds is None or not bounds.is_limit_of_others(identity))
    }
    added = [entry for identity, entry in planned.items() if identity not in database.limits.rows]
    new_plan.differences += [Difference(sign="+", row=f"limit {limit_shown(entry)}") for entry in added]
    new_plan.differences += [Difference(sign="-", row=f"limit {limit_shown(entry)}") for entry in gone.values()]
    for identity, entry in planned.items():
        if identity not in database.limits.rows:
            # A new limit of the same scope replaces the old one and keeps its counters.
            old = next((old for old, before in gone.items() if before.scope == entry.scope), None)
            change = SectionChange(identity=old or identity, entry=entry, changed=names, is_new=old is None, now=now)
            new_plan.changes.append((database.limits, change))
            gone.pop(change.identity, None)
    new_plan.removed_limits += gone


def _mistakes_of_limits(
    new_plan: Plan, stated: Iterable[LimitEntry], *, database: StoredConfiguration, bounds: FileBounds | None
) -> Iterator[Remark]:
    """Yield what is wrong with new limits of a file that each of them alone does not show."""
    groups: Mapping[Identity, GroupEntry] = entries_after(new_plan, database.groups)
    stored = {*database.limits.entries.values()}
    by_scope: dict[ScopeEntry, list[LimitEntry]] = {}
    for entry in sorted(stated, key=stored.__contains__, reverse=True):
        name = str(entry.scope.group)
        group = groups.get((name,)) if bounds is None or bounds.may_name("group", name) else None
        if group is not None and entry not in stored:
            yield from (entry.remark(*mistake) for mistake in entry.mistakes_with(vo_of_group=group.vo))
        of_scope = by_scope.setdefault(entry.scope, [])
        for other in of_scope if entry not in stored else ():
            for key in bounded_by_both(entry, other):
                yield entry.remark(key, f"bounded for the same scope in line {other.source.line}; keep one of them")
        of_scope.append(entry)


def _placed(entry: LimitEntry, file: Configuration, *, database: StoredConfiguration, reading: Reading) -> LimitEntry:
    """Return the limit with the site of its CE filled in."""
    ce, site = entry.scope.ce, entry.scope.site
    if ce is None:
        return entry
    in_file = {(site.name, ce.name) for site in file.sites for ce in site.ces}
    sites = sorted({identity[0] for identity in in_file | database.ces.rows.keys() if identity[1] == ce})
    if site is None and len(sites) == 1:
        return replace(entry, scope=replace(entry.scope, site=sites[0]))
    if site is None and sites:
        reading.problems.append(
            entry.scope.remark("ce", f"name its site too: {', '.join(sites)} have one of that name")
        )
    elif site is not None and sites and site not in sites:
        reading.problems.append(entry.scope.remark("ce", f'the site {site} has no ce "{ce}"'))
    return entry


def limit_shown(entry: LimitEntry) -> str:
    """Return the content of a limit in one line."""
    return " ".join(f"{key} {_shown(key, entry)}" for key in keys_of(LimitEntry) if getattr(entry, key) is not None)


# ---- Unique values ---------------------------------------------------------------------------------------------------


def _taken_dns(new_plan: Plan, *, database: StoredConfiguration) -> Iterator[Remark]:
    users = dict(database.users.entries)
    planned = {change.identity: change.entry for section, change in new_plan.changes if section is database.users}
    owner: dict[str, str] = {}
    for identity, entry in (users | planned).items():
        for dn in entry.dns:
            if owner.setdefault(dn, entry.username) != entry.username:
                of_file = entry if identity in planned else planned[owner[dn],]
                other = owner[dn] if of_file is entry else entry.username
                yield of_file.remark("dns", f'"{dn}" is a DN of {other}; a DN belongs to one user only')


def _check_attached_elements(
    new_plan: Plan, file: Configuration, *, database: StoredConfiguration, reading: Reading
) -> None:
    """Refuse storage elements of a site that serve none of its VOs; warn of those that serve no VO."""
    elements: Mapping[Identity, StorageElementEntry] = entries_after(new_plan, database.storage_elements)
    sites: Mapping[Identity, SiteEntry] = entries_after(new_plan, database.sites)
    for entry in file.storage_elements:
        element = elements.get((entry.name,))
        if element is not None and not element.vos:
            reading.warnings.append(entry.remark("", "it serves no VO; name the VOs that may use it in vos"))
    for stated in file.sites:
        site = sites.get((stated.name,))
        for name in stated.storage_elements:
            element = elements.get((name,))
            if site is None or element is None or not site.vos or not element.vos:
                continue
            if {*site.vos}.isdisjoint(element.vos):
                sentence = f"{name} serves {listed(element.vos)} and none of the site's VOs ({listed(site.vos)})"
                new_plan.problems.append(stated.remark("storage_elements", sentence))


def _check_wall_times(new_plan: Plan, file: Configuration, *, database: StoredConfiguration, reading: Reading) -> None:
    """Warn of batch queues that end before a pilot could use their CPU time.

    A pilot offers no more CPU time than its node can use until the slot ends (``pilots.agent.pilot.offer``), so jobs
    of the longest CPU segment within ``cpu_time_s`` would get pilots that take none of them.
    """
    queues: Mapping[Identity, QueueEntry] = entries_after(new_plan, database.queues)
    segments_s = settings.WMS_CPU_SEGMENTS_S
    for site in file.sites:
        for ce in site.ces:
            for stated in ce.queues:
                queue = queues.get((site.name, ce.name, stated.name))
                if queue is None or queue.wall_time_s is None:
                    continue
                is_usable = queue.cpu_time_s * (1 - SPEED_ERROR) <= queue.wall_time_s
                offered_s = queue.cpu_time_s if is_usable else queue.wall_time_s
                segment_s = max((each for each in segments_s if each <= queue.cpu_time_s), default=0)
                if offered_s >= segment_s:
                    continue
                is_default = cpu_segment_s(DEFAULT_CPU_TIME_S, segments_s=segments_s) == segment_s
                those = f", such as those that state no CPU time ({DEFAULT_CPU_TIME_S} s)," if is_default else ""
                sentence = (
                    f"pilots offer {offered_s} s of CPU time on a node of the reference speed, so jobs of the CPU "
                    f"segment {segment_s}{those} get pilots in vain; raise wall_time_s to {segment_s}, or lower "
                    f"cpu_time_s to {queue.wall_time_s}"
                )
                reading.warnings.append(stated.remark("wall_time_s", sentence))


def entries_after(new_plan: Plan, section: AnySection) -> Mapping[Identity, Any]:
    """Return the entries of a section after the changes."""
    return {**section.entries, **{change.identity: change.entry for of, change in new_plan.changes if of is section}}


def _taken_tokens(file: Configuration) -> Iterator[Remark]:
    used = tokens_in_use()
    for site in file.sites:
        for purpose, plain in tokens_of(site):
            use = (site.name, str(purpose), False)
            if used.setdefault(digest_of(plain), use) != use:
                yield _taken(site.tokens, purpose)


def _taken(tokens: SectionEntry | None, purpose: SiteTokenPurpose) -> Remark:
    sentence = "this token is in use elsewhere, or was revoked; choose another one"
    return tokens.remark(purpose, sentence) if tokens is not None else Remark(1, "", sentence)
