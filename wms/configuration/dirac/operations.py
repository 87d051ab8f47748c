"""The sections JobScheduling of Operations: limits at sites, delays between matches, and corrections of shares."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from taskqueues.domain.limits import LONGEST_DELAY_S
from wms.configuration.dirac.cfg import CfgOption, CfgSection
from wms.configuration.dirac.report import Report, whole_number
from wms.configuration.entries import Values
from wms.configuration.schema import LimitEntry, ScopeEntry

#: DIRAC's attributes of jobs in limits, with our keys of a scope.
_ATTRIBUTES = {"JobType": "job_type", "Owner": "user", "OwnerGroup": "group", "VO": "vo"}
_INTERVALS = re.compile(r"[0-9]+(?:\s*,\s*[0-9]+)*")
_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]{0,9})?")

#: Names below JobScheduling.
_Names = tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Taken:
    """Names of what is taken, to which limits refer."""

    sites: Mapping[str, frozenset[str]]
    #: By key of a scope: vo, group, user.
    names: Mapping[str, frozenset[str]]


@dataclass(slots=True, kw_only=True)
class Scheduling:
    """The scheduling of all VOs."""

    limits: list[LimitEntry] = field(default_factory=list)
    #: VOs whose shares are corrected by usage.
    corrected: set[str] = field(default_factory=set)


def scheduling_of(root: CfgSection, *, setup: str, taken: Taken, report: Report) -> Scheduling:
    """Return the scheduling that the options of a setup give each VO; special ones count before general ones."""
    operations = root.at("Operations")
    vos = sorted(taken.names["vo"])
    by_vo = {vo: _options_of(operations, vo=vo, setup=setup) for vo in vos or [""]}
    _note_unread(operations, vos=vos, setup=setup, report=report)
    scheduling = Scheduling()
    for vo, options in by_vo.items():
        correction = options.get(("EnableSharesCorrection",))
        if correction is not None:
            correction.take("vos: history_fair_share")
            scheduling.corrected |= {vo} if correction.is_true else set()
        _note_intervals(options.get(("taskQueueCPUTimeIntervals",)))
    reader = _LimitReader(by_vo, taken, report)
    for switch, section, read in (
        ("CheckJobLimits", "RunningLimit", _running),
        ("CheckMatchingDelay", "MatchingDelay", _delay),
    ):
        scheduling.limits += reader.limits(switch, section, read)
    return scheduling


def _options_of(operations: CfgSection, *, vo: str, setup: str) -> dict[_Names, CfgOption]:
    """Return the options below JobScheduling that count for a VO; the others are noted as overridden."""
    options: dict[_Names, CfgOption] = {}
    layers = (("Defaults",), (setup,), (vo,), (vo, "Defaults"), (vo, setup))
    for section in (operations, *(operations.at(*names) for names in layers)):
        for names, option in section.at("JobScheduling").options_below():
            if (before := options.get(names)) is not None and before is not option:
                before.overridden_by = option
            options[names] = option
    return options


def _note_unread(operations: CfgSection, *, vos: list[str], setup: str, report: Report) -> None:
    """Note the scheduling of other setups, and of VOs that are not taken."""
    levels = [(operations, {*vos})] + [(operations.at(vo), set[str]()) for vo in vos]
    for above, known in levels:
        for name, section in above.sections.items():
            is_read = name in known | {"Defaults", setup, "JobScheduling"}
            if not is_read and any("JobScheduling" in names[:2] for names, _ in section.options_below()):
                report.refuse(section, f'"{name}" is neither a VO that is taken nor the setup {setup} (see --setup)')


def _note_intervals(option: CfgOption | None) -> None:
    if option is not None:
        value = re.sub(r"\s", "", option.value) if _INTERVALS.fullmatch(option.value) else "…"
        option.leave(f"it is a setting of the server: WMS_CPU_SEGMENTS_S={value}")


# ---- Limits ----------------------------------------------------------------------------------------------------------


def _running(option: CfgOption, scope: ScopeEntry) -> LimitEntry | None:
    number = whole_number(option)
    return None if number is None else LimitEntry(scope=scope, running=number)


def _delay(option: CfgOption, scope: ScopeEntry) -> LimitEntry | None:
    delay_s = float(option.value) if _SECONDS.fullmatch(option.value) else 0.0
    if not 0 < delay_s <= LONGEST_DELAY_S:
        option.leave(f"not a number of seconds above 0, up to {LONGEST_DELAY_S:g}")
        return None
    return LimitEntry(scope=scope, delay_s=delay_s, burst=1)


class _LimitReader:
    """Reads limits; one that counts for all VOs is stated once, and counts the jobs of all of them together."""

    def __init__(self, by_vo: Mapping[str, Mapping[_Names, CfgOption]], taken: Taken, report: Report) -> None:
        self._by_vo = by_vo
        self._report = report
        self._taken = taken

    def limits(
        self, switch: str, section: str, read: Callable[[CfgOption, ScopeEntry], LimitEntry | None]
    ) -> Iterator[LimitEntry]:
        """Yield the limits of a section, where the option *switch* does not switch it off."""
        vos_of: dict[CfgOption, list[str]] = {}
        names_of: dict[CfgOption, _Names] = {}
        for vo, options in self._by_vo.items():
            is_on = self._is_on(options.get((switch,)))
            for names, option in options.items():
                if names[0] != section or len(names) < 2:
                    continue
                if is_on:
                    vos_of.setdefault(option, []).append(vo)
                    names_of[option] = names[1:]
                else:
                    option.leave(f"{switch} is false")
        if vos_of and not any((switch,) in options for options in self._by_vo.values()):
            self._report.notes.append(f"No {switch} is stated: the limits in {section} are taken as switched on.")
        for option, vos in vos_of.items():
            for each in [None] if len(vos) == len(self._by_vo) else vos:
                scope = self._scope(option, names_of[option], each)
                limit = read(option, scope) if scope is not None else None
                if limit is not None:
                    option.take("limits: " + ("delay_s" if limit.running is None else "running"))
                    yield limit

    def _is_on(self, option: CfgOption | None) -> bool:
        """Return the switch; DIRAC's documents say that its default is false, and its program that it is true."""
        if option is None:
            return True
        if option.is_true:
            option.take("limits")
        else:
            option.leave("the limits are left out")
        return option.is_true

    def _scope(self, option: CfgOption, names: _Names, vo: str | None) -> ScopeEntry | None:
        """Return the scope that *names* state: of a site, perhaps of a CE, then an attribute and its value."""
        site, names = names[0], names[1:]
        if site not in self._taken.sites:
            option.leave(f'"{site}" is not a site that is taken')
            return None
        ce = None
        if len(names) == 4 and names[0] == "CEs":
            ce, names = names[1], names[2:]
            if ce not in self._taken.sites[site]:
                option.leave(f'"{ce}" is not a CE of the site that is taken')
                return None
            option.change("limits: scope", "it counts the jobs of the CE, where DIRAC counts those of its site")
        key = _ATTRIBUTES.get(names[0]) if len(names) == 2 else None
        if key is None:
            option.leave("the scope of a limit is JobType, Owner, OwnerGroup or VO")
            return None
        if key != "job_type" and names[1] not in self._taken.names[key]:
            option.leave(f'"{names[1]}" is not a {key} that is taken')
            return None
        if key == "vo" and vo not in (None, names[1]):
            option.leave(f"in the section of the VO {vo} it counts no jobs")
            return None
        scope: Values = {"vo": vo, "site": site, "ce": ce, key: names[1]}
        return ScopeEntry(**scope)
