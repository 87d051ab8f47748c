"""Checks of parameter values against their definitions, in the file and in the database (ADR 31)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from resources.domain.definitions import Definition, MisfitValue, by_folded_name, misfit_values
from resources.domain.enums import RequirementKind
from resources.domain.parameters import unserved_vos
from wms.configuration.plan import Plan, StoredConfiguration, entries_after
from wms.configuration.problems import Remark
from wms.configuration.reading import Reading
from wms.configuration.resource_schema import CEEntry, DefinitionEntry, QueueEntry, SiteEntry
from wms.configuration.schema import Configuration
from wms.configuration.sections import Identity
from wms.kernel.names import listed

LevelEntry = SiteEntry | CEEntry | QueueEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class _Misfit:
    """One value that its definition forbids, and its place."""

    #: Such as "queue LCG.CERN.ch/ce01/grid".
    place: str
    #: The level in the file; None: the file does not state it.
    stated: LevelEntry | None
    site: SiteEntry | None
    value: MisfitValue


def note_misfits(file: Configuration, new_plan: Plan, *, database: StoredConfiguration, reading: Reading) -> None:
    """Refuse misfits that this file causes, by a value or by a definition; warn of earlier ones.

    Parameters of VOs that the site does not serve are refused, too.

    Args:
        file: as read.
        new_plan: the planned changes; problems are added to it.
        database: the stored configuration.
        reading: warnings are added to it.
    """
    new_plan.problems += _unserved(new_plan, database=database)
    definitions = entries_after(new_plan, database.definitions)
    changed = {
        change.identity: change.entry
        for section, change in new_plan.changes
        if section is database.definitions and (change.is_new or change.changed & {"kind", "vos"})
    }
    of_definition: dict[Identity, list[str]] = {}
    for misfit in _misfits(file, new_plan, database=database, definitions=definitions):
        key: Identity = (misfit.value.definition.name.casefold(),)
        line = None if misfit.stated is None else _line(misfit.stated, misfit.value, reading)
        if line is not None:
            new_plan.problems.append(line)
        elif key in changed:
            of_definition.setdefault(key, []).append(misfit.place)
        elif (
            misfit.site is not None and "vos" in misfit.site.source.lines and _serves_others(misfit, new_plan, database)
        ):
            sentence = f"{misfit.place} has a {misfit.value.name} that {misfit.value.problem}"
            new_plan.problems.append(misfit.site.remark("vos", sentence))
        else:
            sentence = f"{misfit.place}: {misfit.value.name} {misfit.value.problem}. No job that requires it runs there"
            reading.warnings.append(Remark(1, "", sentence))
    for key, places in of_definition.items():
        entry: DefinitionEntry = changed[key]
        sentence = f"{entry.name} is not a number of 0 or more at {listed(places)}; correct the parameters there too"
        new_plan.problems.append(entry.remark("kind", sentence))


def _unserved(new_plan: Plan, *, database: StoredConfiguration) -> Iterator[Remark]:
    sites, vos = entries_after(new_plan, database.sites), entries_after(new_plan, database.vos)
    for section, change in new_plan.changes:
        if "vo_parameters" in change.changed and section in (database.sites, database.ces, database.queues):
            stored = section.entries.get(change.identity)
            before = () if stored is None else stored.vo_parameters
            known = {name for (name,) in vos}
            # A VO that does not exist is refused as such.
            of_known = {name: own for name, own in change.entry.vo_parameters.items() if name in known}
            for sentence in unserved_vos(of_known, before=before, served=sites[change.identity[:1]].vos or known):
                yield change.entry.remark("vo_parameters", sentence)


def _misfits(
    file: Configuration, new_plan: Plan, *, database: StoredConfiguration, definitions: Mapping[Identity, object]
) -> Iterator[_Misfit]:
    by_name = by_folded_name(
        Definition(name=entry.name, kind=RequirementKind(entry.kind), unit=entry.unit, vos=frozenset(entry.vos))
        for entry in definitions.values()
        if isinstance(entry, DefinitionEntry)
    )
    if not any(definition.kind is RequirementKind.CAPACITY for definition in by_name.values()):
        return
    stated = _stated(file)
    sites = entries_after(new_plan, database.sites)
    for section in (database.sites, database.ces, database.queues):
        for identity, entry in entries_after(new_plan, section).items():
            site = sites[identity[:1]]
            if not isinstance(entry, LevelEntry) or not isinstance(site, SiteEntry):
                continue
            misfits = misfit_values(entry.parameters, entry.vo_parameters, serves=site.vos, definitions=by_name)
            for value in misfits:
                of_site = stated.get(identity[:1])
                yield _Misfit(
                    place=f"{section.record.noun} {'/'.join(identity)}",
                    stated=stated.get(identity),
                    site=of_site if isinstance(of_site, SiteEntry) else None,
                    value=value,
                )


def _stated(file: Configuration) -> Mapping[Identity, LevelEntry]:
    levels: dict[Identity, LevelEntry] = {}
    for site in file.sites:
        levels[site.name,] = site
        for ce in site.ces:
            levels[site.name, ce.name] = ce
            levels |= {(site.name, ce.name, queue.name): queue for queue in ce.queues}
    return levels


def _line(stated: LevelEntry, value: MisfitValue, reading: Reading) -> Remark | None:
    """Return the problem at the line of the parameter; None: the file does not state it."""
    key = "parameters" if value.vo is None else "vo_parameters"
    if key not in stated.source.lines:
        return None
    path = f"{stated.source.path}.{key}.{'' if value.vo is None else value.vo + '.'}{value.name}"
    line = reading.lines.get(path, stated.source.lines[key])
    return Remark(line, path, f"{value.name} {value.problem}")


def _serves_others(misfit: _Misfit, new_plan: Plan, database: StoredConfiguration) -> bool:
    """Return whether the file changes the VOs of the site."""
    return any(
        section is database.sites
        and "vos" in change.changed
        and misfit.site is not None
        and change.entry.name == misfit.site.name
        for section, change in new_plan.changes
    )
