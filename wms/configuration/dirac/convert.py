"""The conversion of a configuration of DIRAC: its sections one after the other, then the file for `configure`."""

from collections.abc import Mapping
from dataclasses import replace

from wms.configuration.dirac.cfg import CfgSection, parse
from wms.configuration.dirac.operations import Taken, scheduling_of
from wms.configuration.dirac.registry import accounts_of
from wms.configuration.dirac.report import Report
from wms.configuration.dirac.resources import SiteReader, platforms_of, storage_elements_of
from wms.configuration.dirac.systems import directors_of
from wms.configuration.entries import SectionEntry, as_written, keys_of
from wms.configuration.problems import ConfigurationError
from wms.configuration.schema import Configuration
from wms.kernel.yaml_text import dump

_HEAD = "# Made from a configuration of DIRAC by import_dirac. It holds no secrets.\n"
#: What the files of no installation say, by the section of ours that it concerns.
_NOTES = {
    "users": "No user has a password: send each a link by which to set one, or use OpenID Connect.",
    "platforms": "Nodes report platforms such as x86_64-el9: add to platforms what those can run.",
    "sites": "All sites are active: DIRAC keeps bans in a database, not in these files.",
}
_SECTIONS = frozenset({"Registry", "Resources", "Operations", "Systems"})


class NotDiracError(Exception):
    """A file cannot be read as a configuration of DIRAC; the text is one sentence with the file and the line."""


def convert(files: Mapping[str, bytes], *, setup: str = "", vo: str = "") -> tuple[str, Report]:
    """Return our configuration file, empty if nothing can be taken, and the report.

    Args:
        files: contents by the name for the report; options of later files count before those of earlier ones.
        setup: default setup of the VOs; empty: that of the files.
        vo: VO of groups that name none; empty: that of files with a single VO.

    Raises:
        NotDiracError: with the first problem.
    """
    root, report = CfgSection(), Report()
    for file, source in files.items():
        try:
            report.options += parse(source, file=file, root=root)
        except ConfigurationError as error:
            problem = error.problems[0]
            raise NotDiracError(f"{file}, line {problem.line}: {problem.sentence}.") from error
    if not _SECTIONS & root.sections.keys():
        named = ", ".join(files)
        raise NotDiracError(
            f"{named}: there is no section Registry, Resources or Operations; give DIRAC's configuration."
        )
    configuration = _configuration(root, setup=setup, vo=vo, report=report)
    report.notes += [note for section, note in _NOTES.items() if getattr(configuration, section)]
    stated = _stated(configuration)
    return (_HEAD + dump(stated) if stated else ""), report


def _configuration(root: CfgSection, *, setup: str, vo: str, report: Report) -> Configuration:
    accounts = accounts_of(root, setup=setup, default_vo=vo, report=report)
    vos = list(accounts.vos)
    elements = storage_elements_of(root, vos=vos, report=report)
    sites = {site.name: site for site in SiteReader(root, vos=vos, elements=elements, report=report).sites()}
    taken = Taken(
        sites={name: frozenset(ce.name for ce in site.ces) for name, site in sites.items()},
        names={"vo": frozenset(vos), "group": frozenset(accounts.groups), "user": frozenset(accounts.users)},
    )
    scheduling = scheduling_of(root, setup=accounts.setup, taken=taken, report=report)
    return Configuration(
        vos=tuple(
            replace(each, history_fair_share=each.name in scheduling.corrected) for each in accounts.vos.values()
        ),
        groups=tuple(accounts.groups.values()),
        users=tuple(accounts.users.values()),
        platforms=tuple(platforms_of(root)),
        storage_elements=tuple(elements.values()),
        sites=tuple(sites.values()),
        directors=tuple(directors_of(root, setup=accounts.setup, sites=sites, report=report)),
        limits=tuple(scheduling.limits),
    )


def _stated(value: object) -> object:
    """Return a value as it is written; keys with their default are left out."""
    if isinstance(value, Configuration):
        stated = {name: _stated(getattr(value, name)) for name in keys_of(Configuration) if getattr(value, name)}
        if value.platforms:
            stated["platforms"] = {platform.name: as_written(platform.runs) for platform in value.platforms}
        return stated
    if isinstance(value, SectionEntry):
        keys = keys_of(type(value)).items()
        return {name: _stated(getattr(value, name)) for name, key in keys if getattr(value, name) != key.default}
    return [_stated(each) for each in value] if isinstance(value, tuple) else as_written(value)
