"""The section Resources: storage elements, platforms, and sites with computing elements and queues."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from resources.domain.enums import ResourceState
from resources.domain.files import STORAGE_URL
from wms.configuration.dirac.cfg import CfgOption, CfgSection
from wms.configuration.dirac.queues import MAX_WAITING, queue_of
from wms.configuration.dirac.report import Report, UniqueNames, chosen, find, is_name, whole_number
from wms.configuration.entries import Values
from wms.configuration.resource_schema import (
    CEEntry,
    PlatformEntry,
    QueueEntry,
    SiteEntry,
    StatusEntry,
    StorageElementEntry,
)

# ---- Storage elements ------------------------------------------------------------------------------------------------

#: DIRAC's protocols that pilots here speak, with the schemes of their addresses.
_SCHEMES = {"https": "https", "davs": "https", "http": "http", "dav": "http", "file": "file"}
_LONGEST_URL = 500


def storage_elements_of(root: CfgSection, *, vos: Sequence[str], report: Report) -> dict[str, StorageElementEntry]:
    """Return the storage elements that have an address which pilots here can use."""
    names = UniqueNames()
    elements: dict[str, StorageElementEntry] = {}
    bases = root.at("Resources", "StorageElementBases")
    for name, section in root.at("Resources", "StorageElements").sections.items():
        if flaw := names.flaw(name, where=section.where):
            report.refuse(section, flaw)
            continue
        base = section.options.get("BaseSE")
        chain = [section, bases.at(base.value)] if base else [section]
        if base is not None and base.value in bases.sections:
            base.take(f"storage element {name}: url")
        option = find(chain, "VO")
        served = chosen(option, vos, what="a VO")
        if option is not None and not served:
            report.refuse(section, "it serves no VO that is taken")
            continue
        url = _url(name, chain)
        if not url:
            report.refuse(section, f"pilots here read and write by {', '.join(_SCHEMES)} only")
            continue
        if option is not None:
            option.take(f"storage element {name}: vos")
        elements[name] = StorageElementEntry(name=name, vos=tuple(served or vos), url=url)
    return elements


def _url(name: str, chain: Sequence[CfgSection]) -> str:
    """Return the address by the first protocol that can be used; parts of it may be in the base."""
    url = ""
    for protocol in dict.fromkeys(name for section in chain for name in section.sections):
        parts = [section.sections[protocol] for section in chain if protocol in section.sections]
        scheme, host, port, path = (find(parts, part) for part in ("Protocol", "Host", "Port", "Path"))
        if scheme is None:
            continue
        ours = _SCHEMES.get(scheme.value.lower(), "")
        of_host = "" if ours == "file" or host is None else host.value
        of_port = f":{port.value}" if port and of_host and port.value not in {"", "0"} else ""
        new = f"{ours}://{of_host}{of_port}/{path.value.strip('/') if path else ''}".rstrip("/")
        is_usable = ours and (of_host or ours == "file") and len(new) <= _LONGEST_URL and STORAGE_URL.match(new)
        if url or not is_usable:
            continue
        url = new
        for option in filter(None, (scheme, host, port, path)):
            if option is scheme and ours != scheme.value:
                option.change(f"storage element {name}: url", f"{scheme.value} is {ours}")
            else:
                option.take(f"storage element {name}: url")
    return url


# ---- Platforms -------------------------------------------------------------------------------------------------------


def platforms_of(root: CfgSection) -> list[PlatformEntry]:
    """Return the platforms of nodes, with those of jobs that they can run; DIRAC has it the other way round."""
    runs: dict[str, list[str]] = {}
    for name, option in root.at("Resources", "Computing", "OSCompatibility").options.items():
        for node in option.elements:
            if is_name(name) and is_name(node):
                runs.setdefault(node, []).append(name)
                option.take(f"platforms: {node}")
            else:
                option.leave(f'"{name}" or "{node}" is not a name here')
    return [PlatformEntry(name=node, runs=tuple(platforms)) for node, platforms in runs.items()]


# ---- Sites -----------------------------------------------------------------------------------------------------------

_BATCH_SYSTEMS = {"slurm": "slurm", "condor": "htcondor"}
#: The type of a CE to which no pilots are sent, because it must have one.
_TYPE_WITHOUT_PILOTS = "htcondor"
_HOST = re.compile(r"(?:([A-Za-z0-9_][A-Za-z0-9._-]*)@)?([A-Za-z0-9][A-Za-z0-9.-]*)(?::([0-9]{1,5}))?(?:/.*)?")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
#: Options of our backends by DIRAC's names, where they mean the same.
_BACKEND_OPTIONS = {"slurm": {"Account": "account", "Constraint": "constraint"}}


def _type_of(ce_type: str, batch_system: str) -> str:
    """Return our type of a CE; empty: no backend here sends pilots to it."""
    access, batch_system = ce_type.lower(), batch_system.lower()
    if access.startswith("ssh") and access != "ssh":  # SSHTorque and the like of the first versions
        access, batch_system = "ssh", access.removeprefix("ssh")
    if access in _BATCH_SYSTEMS:
        return _BATCH_SYSTEMS[access]
    if access not in {"ssh", "local"}:
        return ""
    if batch_system in {"", "host"}:
        return access
    return _BATCH_SYSTEMS.get(batch_system, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    """The VOs that a queue serves, or a site without queues."""

    option: CfgOption | None
    #: None: all; empty: none that is taken.
    vos: frozenset[str] | None


class SiteReader:
    """Reads one site after the other.

    Args:
        root: the whole configuration.
        vos: that are taken.
        elements: storage elements that are taken.
        report: gets what is not taken.
    """

    def __init__(
        self, root: CfgSection, *, vos: Sequence[str], elements: Mapping[str, StorageElementEntry], report: Report
    ) -> None:
        self._resources = root.at("Resources")
        self._vos = vos
        self._elements = elements
        self._report = report
        self._names = UniqueNames()
        #: The queues of the site that is read.
        self._served: list[_Served] = []

    def sites(self) -> Iterator[SiteEntry]:
        """Yield the sites."""
        for grid in self._resources.at("Sites").sections.values():
            for name, section in grid.sections.items():
                site = self._site(name, section)
                if site is not None:
                    yield site

    def _site(self, name: str, section: CfgSection) -> SiteEntry | None:
        if flaw := self._names.flaw(name, where=section.where):
            self._report.refuse(section, flaw)
            return None
        own = section.options.get("VO")
        if own is not None and not chosen(own, self._vos, what="a VO"):
            self._report.refuse(section, "it serves no VO that is taken")
            return None
        self._served = []
        ce_names = UniqueNames()
        ces: list[CEEntry] = []
        for ce_name, ce in section.at("CEs").sections.items():
            if flaw := ce_names.flaw(ce_name, where=ce.where):
                self._report.refuse(ce, flaw)
            else:
                ces.append(self._ce(f"{name}/{ce_name}", ce, site=section))
        self._note_old_names(section)
        vos = self._vos_of(name, own)
        if vos is None:
            self._report.refuse(section, "its queues serve no VO that is taken")
            return None
        return SiteEntry(name=name, vos=vos, storage_elements=self._close_elements(name, section, vos), ces=tuple(ces))

    def _note_old_names(self, site: CfgSection) -> None:
        for option in filter(None, [site.options.get("CE")]):
            for ce in option.elements:
                is_there = ce in site.at("CEs").sections
                option.leave("the section CEs counts" if is_there else f"{ce} has no section in CEs")

    def _vos_of(self, name: str, own: CfgOption | None) -> tuple[str, ...] | None:
        """Return the VOs of a site, empty for all: those of any queue, because ours serve all VOs of their site.

        None: each of its queues serves only VOs that are not taken.
        """
        of_site = _Served(option=own, vos=frozenset(chosen(own, self._vos, what="a VO")) if own else None)
        served = [each for each in self._served or [of_site] if each.vos is None or each.vos]
        if not served:
            return None
        limited = [each.vos for each in served if each.vos is not None]
        union = frozenset[str]().union(*limited) if len(limited) == len(served) else frozenset()
        for each in served:
            if each.option is None:
                continue
            if each.vos == union:
                each.option.take(f"site {name}: vos")
            else:
                others = ", ".join(vo for vo in self._vos if vo in union) or "all VOs"
                each.option.change(f"site {name}: vos", f"a queue serves the VOs of its site: {others}")
        return tuple(vo for vo in self._vos if vo in union)

    def _close_elements(self, name: str, site: CfgSection, vos: Sequence[str]) -> tuple[str, ...]:
        close: dict[str, None] = {}
        for option in (*filter(None, [site.options.get("SE")]), *site.at("AssociatedSEs").options.values()):
            for element in chosen(option, self._elements, what="a storage element"):
                if vos and not {*vos} & {*self._elements[element].vos}:
                    option.leave(f"{element} serves none of the VOs of the site")
                    continue
                option.take(f"site {name}: storage_elements")
                close[element] = None
        return tuple(close)

    # ---- Computing elements ----------------------------------------------------------------------------------

    def _ce(self, path: str, ce: CfgSection, *, site: CfgSection) -> CEEntry:
        """Return a CE; *path* is site/ce."""
        ce_type = ce.options.get("CEType")
        computing = self._resources.at("Computing")
        above = [site.at("CEs"), computing.at(ce_type.value if ce_type else ""), computing.at("CEDefaults")]
        chain = [ce, *above]
        batch = find(chain, "BatchSystem")
        kind = _type_of(ce_type.value if ce_type else "", batch.value if batch else "")
        name = path.partition("/")[2]
        options = self._ssh_options(path, chain, default_host=name) if kind and _is_ssh(ce_type) else {}
        if options is None:
            kind, options = "", {}
        self._note_type(path, kind, ce_type, batch)
        for theirs, ours in _BACKEND_OPTIONS.get(kind, {}).items():
            if (option := find(chain, theirs)) is not None and option.value:
                option.take(f"ce {path}: options.{ours}")
                options[ours] = option.value
        pilot = find(chain, "Pilot")
        if pilot is not None:
            pilot.take(f"ce {path}: status")
        is_closed = pilot is not None and not pilot.is_true
        status = StatusEntry(state=ResourceState.DRAINING, reason="Pilot = False in DIRAC")
        entry = CEEntry(name=name, type=kind or _TYPE_WITHOUT_PILOTS, options=options)
        entry = replace(entry, queues=tuple(self._queues(path, chain, site=site, takes_pilots=bool(kind))))
        if not kind and ce_type is not None and 0 < len(ce_type.value) <= 128:
            entry = replace(entry, middleware=ce_type.value)
        return replace(entry, status=status) if is_closed else entry

    def _note_type(self, path: str, kind: str, ce_type: CfgOption | None, batch: CfgOption | None) -> None:
        how = (
            "no backend sends pilots to it, so max_waiting_pilots is 0: let the site start pilots itself (sites.md), "
            "or give type and options of a backend"
        )
        if ce_type is None and not kind:
            self._report.notes.append(f"ce {path} has no CEType: {how}.")
        for option in filter(None, (ce_type, batch)):
            if not kind:
                option.change(f"ce {path}: type", how)
            elif option.value.lower() == kind:
                option.take(f"ce {path}: type")
            else:
                option.change(f"ce {path}: type", kind)

    def _ssh_options(self, path: str, chain: Sequence[CfgSection], *, default_host: str) -> Values | None:
        """Return the options of the connection; None: its host cannot be used."""
        option = find(chain, "SSHHost")
        parts = _HOST.fullmatch(option.value if option else default_host)
        if parts is None:
            if option is not None:
                option.leave("it is not the name of a host that ssh could reach")
            return None
        options: Values = {"host": parts[2]}
        if option is not None:
            option.take(f"ce {path}: options.host")
        port, user = find(chain, "SSHPort"), find(chain, "SSHUser")
        number = whole_number(port, least=1, most=65535) if port else None
        if port is not None and number is not None:
            port.take(f"ce {path}: options.port")
        if number or parts[3]:
            options["port"] = number or int(parts[3])
        if user is not None and _USER.fullmatch(user.value):
            options["user"] = user.value
            user.take(f"ce {path}: options.user")
        elif user is not None:
            user.leave("it is not the name of an account")
        elif parts[1]:
            options["user"] = parts[1]
        return options

    # ---- Queues ----------------------------------------------------------------------------------------------

    def _queues(
        self, path: str, chain: Sequence[CfgSection], *, site: CfgSection, takes_pilots: bool
    ) -> Iterator[QueueEntry]:
        names = UniqueNames()
        for section_name, section in chain[0].at("Queues").sections.items():
            renamed = section.options.get("CEQueueName")
            name = renamed.value if renamed else section_name
            if flaw := names.flaw(name, where=section.where):
                self._report.refuse(section, flaw)
                continue
            levels = [section, *chain]
            option = find([*levels[:2], site], "VO")
            known = frozenset(chosen(option, self._vos, what="a VO"))
            self._served.append(_Served(option=option, vos=known if option else None))
            if option is not None and not known:
                self._report.refuse(section, "it serves no VO that is taken")
                continue
            if renamed is not None:
                renamed.change(f"queue {path}/{name}: name", "the name of the section is lost")
            label = f"queue {path}/{name}"
            queue = queue_of(name, label=label, levels=levels)
            if not takes_pilots:
                queue = replace(queue, max_waiting_pilots=0)
                if (waiting := find(levels, *MAX_WAITING)) is not None:
                    waiting.change(f"{label}: max_waiting_pilots", "0: no pilots are sent to the CE")
            yield queue


def _is_ssh(ce_type: CfgOption | None) -> bool:
    return ce_type is not None and ce_type.value.lower().startswith("ssh")
