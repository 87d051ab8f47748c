"""Queues of Resources: amounts, tags and platforms; the queue counts before its CE, and this before the rest."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from wms.configuration.dirac.cfg import CfgSection
from wms.configuration.dirac.report import find, is_name, whole_number
from wms.configuration.entries import Values
from wms.configuration.resource_schema import QueueEntry


@dataclass(frozen=True, slots=True)
class _Amount:
    """A number of a queue."""

    #: DIRAC's names of it; the first that is there counts.
    names: tuple[str, ...]
    key: str
    least: int = 0
    #: From its unit to ours.
    factor: int = 1


#: DIRAC's names of the largest number of waiting pilots.
MAX_WAITING = ("MaxWaitingJobs", "MaxWaitingPilots")

_AMOUNTS = (
    _Amount(("NumberOfProcessors", "MaxProcessors"), "processors", least=1),
    _Amount(("NumberOfGPUs",), "gpus"),
    _Amount(("MaxRAM",), "memory_mb"),
    _Amount(("maxWallClockTime", "maxWallTime"), "wall_time_s", least=1, factor=60),
    _Amount(("MaxTotalJobs",), "max_pilots"),
    _Amount(MAX_WAITING, "max_waiting_pilots"),
)
_MOST = 2**31 - 1

#: DIRAC's bound of maxCPUTime in minutes, and the SI00 of its reference core (an HS06 is 250 of them).
_MOST_MINUTES = 1_080_000
_REFERENCE_SI00 = 250
#: A job that states no CPU time fits.
_DEFAULT_CPU_TIME_S = 86_400

#: Tags that DIRAC derives from amounts.
_TAG_OF_AMOUNT = re.compile(r"multiprocessor|[0-9]+processors|[0-9]+gb", re.IGNORECASE)
_NO_PLATFORM = frozenset({"", "any"})


def queue_of(name: str, *, label: str, levels: Sequence[CfgSection]) -> QueueEntry:
    """Return a queue.

    Args:
        name: in the batch system.
        label: of the queue in the report.
        levels: sections with options of the queue; the first that has an option counts.
    """
    amounts: Values = {}
    for amount in _AMOUNTS:
        option = find(levels, *amount.names)
        most = _MOST // amount.factor
        number = whole_number(option, least=amount.least, most=most) if option else None
        if option is None or number is None:
            continue
        amounts[amount.key] = number * amount.factor
        if amount.factor == 1:
            option.take(f"{label}: {amount.key}")
        else:
            option.change(f"{label}: {amount.key}", f"times {amount.factor}: {number * amount.factor} s")
    required = _tags(label, levels, "RequiredTag", "required_tags")
    tags = dict.fromkeys([*_tags(label, levels, "Tag", "tags"), *_whole_node(label, levels), *required])
    return QueueEntry(
        name=name,
        cpu_time_s=_cpu_time_s(label, levels),
        platforms=_platforms(label, levels),
        container=_has_containers(label, levels),
        tags=tuple(tags),
        required_tags=tuple(required),
        **amounts,
    )


def _cpu_time_s(label: str, levels: Sequence[CfgSection]) -> int:
    """Return the CPU time: stated in seconds, or in minutes of a core with a number of SI00, by DIRAC's formula."""
    key = f"{label}: cpu_time_s"
    stated = find(levels, "CPUTime")
    seconds = whole_number(stated, least=1) if stated else None
    if stated is not None and seconds is not None:
        stated.take(key)
        for option in filter(None, (find(levels, "maxCPUTime"), find(levels, "SI00"))):
            option.leave("CPUTime counts")
        return seconds
    minutes_option, speed_option = find(levels, "maxCPUTime"), find(levels, "SI00")
    minutes = whole_number(minutes_option) if minutes_option else None
    speed = (whole_number(speed_option) if speed_option else None) or _REFERENCE_SI00
    cpu_time_s = min(minutes or 0, _MOST_MINUTES) * 60 * speed // _REFERENCE_SI00
    if minutes_option is None or not 0 < cpu_time_s <= _MOST:
        for option in filter(None, (minutes_option, speed_option)):
            option.change(key, f"{_DEFAULT_CPU_TIME_S} s, because the queue states no CPU time")
        return _DEFAULT_CPU_TIME_S
    for option in filter(None, (minutes_option, speed_option)):
        option.change(key, f"{minutes} minutes × 60 × SI00 {speed} / {_REFERENCE_SI00}: {cpu_time_s} s")
    return cpu_time_s


def _tags(label: str, levels: Sequence[CfgSection], theirs: str, ours: str) -> list[str]:
    """Return the tags of all levels, without those that stand for an amount."""
    tags: dict[str, None] = {}
    for option in (level.options[theirs] for level in levels if theirs in level.options):
        for tag in option.elements:
            if _TAG_OF_AMOUNT.fullmatch(tag):
                option.leave(f"{tag} is an amount here: processors or memory_mb")
            elif len(tag) > 255:
                option.leave("a tag has at most 255 characters")
            else:
                option.take(f"{label}: {ours}")
                tags[tag] = None
    return list(tags)


def _whole_node(label: str, levels: Sequence[CfgSection]) -> list[str]:
    option = find(levels, "WholeNode")
    if option is None or not option.is_true:
        return []
    option.change(f"{label}: tags", "the tag WholeNode")
    return ["WholeNode"]


def _platforms(label: str, levels: Sequence[CfgSection]) -> tuple[str, ...]:
    stated, system, architecture = find(levels, "Platform"), find(levels, "OS"), find(levels, "architecture")
    platforms = [each for each in (stated.elements if stated else ()) if each.lower() not in _NO_PLATFORM]
    options = [option for option in (stated,) if option]
    if not platforms and system is not None and architecture is not None:
        platforms, options = [f"{architecture.value}_{system.value}"], [architecture, system]
    known = [platform for platform in platforms if is_name(platform)]
    for option in options:
        if known:
            option.take(f"{label}: platforms")
        if known != platforms:
            option.leave("a platform is not a name here")
    return tuple(known)


def _has_containers(label: str, levels: Sequence[CfgSection]) -> bool:
    option = find(levels, "LocalCEType")
    if option is None:
        return False
    if "singularity" in option.value.lower() or "apptainer" in option.value.lower():
        option.change(f"{label}: container", "true; pilots start payloads and containers themselves")
        return True
    option.leave("pilots start payloads themselves")
    return False
