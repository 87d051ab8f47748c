"""The sections SiteDirector of Systems: directors. The rest of Systems configures DIRAC's own processes."""

from collections.abc import Container, Iterator

from wms.configuration.dirac.cfg import CfgSection
from wms.configuration.dirac.report import Report, UniqueNames, chosen, whole_number
from wms.configuration.schema import DirectorEntry

_SYSTEMS = ("WorkloadManagement", "WorkloadManagementSystem")


def directors_of(root: CfgSection, *, setup: str, sites: Container[str], report: Report) -> list[DirectorEntry]:
    """Return a director for each site director that sends pilots to other sites than those before it.

    Args:
        setup: chooses the instance of an old installation.
        sites: names of the sites that are taken.
    """
    directors: list[DirectorEntry] = []
    names = UniqueNames(longest=64)
    by_sites: dict[frozenset[str], str] = {}
    for name, section in _site_directors(root, setup=setup, report=report):
        if flaw := names.flaw(name, where=section.where):
            report.refuse(section, flaw)
            continue
        site = section.options.get("Site")
        named = site is not None and [element.lower() for element in site.elements] not in ([], ["any"])
        known = chosen(site, (each for each in site.elements if each in sites), what="a site") if site and named else []
        if named and not known:
            report.refuse(section, "it serves no site that is taken")
            continue
        first = by_sites.setdefault(frozenset(known), name)
        if first != name:
            report.refuse(section, f"the director {first} serves the same sites; a director serves all VOs")
            continue
        if site is not None:
            site.take(f"director {name}: sites")
        directors.append(DirectorEntry(name=name, sites=tuple(known), pilots_per_cycle=_pilots(name, section)))
    return directors


def _pilots(name: str, section: CfgSection) -> int:
    option = section.options.get("MaxPilotsToSubmit")
    number = whole_number(option, least=1) if option else None
    if option is None or number is None:
        return DirectorEntry(name=name).pilots_per_cycle
    option.take(f"director {name}: pilots_per_cycle")
    return number


def _site_directors(root: CfgSection, *, setup: str, report: Report) -> Iterator[tuple[str, CfgSection]]:
    """Yield the sections of site directors, with their names; DIRAC 9 has no instances."""
    chosen_instance = root.at("DIRAC", "Setups", setup).options.get("WorkloadManagement")
    for system in _SYSTEMS:
        above = root.at("Systems", system)
        yield from _below(above)
        for instance, section in above.sections.items():
            if chosen_instance is None or instance == chosen_instance.value:
                yield from _below(section)
                continue
            for _, director in _below(section):
                report.refuse(director, f"the setup {setup} does not use the instance {instance}")
    if chosen_instance is not None:
        chosen_instance.leave("it chooses the instance whose directors are read")


def _below(section: CfgSection) -> Iterator[tuple[str, CfgSection]]:
    for name, agent in section.at("Agents").sections.items():
        module = agent.options.get("Module")
        if name.startswith("SiteDirector") or (module is not None and module.value == "SiteDirector"):
            yield name, agent
