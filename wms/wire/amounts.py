"""Amounts: the requirements of jobs that are numbers, such as memory, which a slot offers enough of or not.

``AMOUNTS`` describes each of them once: its name, unit, default, limits, rounding, condition of the match, names in
JDL, label and help texts. Job descriptions, task queues, offers, leases, batch requests, forms, serializers and
explanations are made from it. CONTRIBUTING.md has the recipe for another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Amount:
    """One requirement that is a whole number; a slot offers enough if it offers as much."""

    #: Name of the field and of the column, with its unit.
    name: str
    label: str
    #: As shown: MB, s; empty: things that are counted.
    unit: str
    #: Its word in a sentence: "memory" with a unit, "processor" of things that are counted.
    noun: str
    #: The largest that a job may state.
    most: int
    #: Name of its condition in ``taskqueues.domain.conditions``.
    condition: str
    #: Attributes in JDL; the first is that of ClassAds.
    jdl: tuple[str, ...]
    #: For those who describe a job, and those who read an offer.
    help_of_job: str
    help_of_slot: str
    #: The smallest that a job may state, and the default; 0: no requirement, or nothing offered.
    least: int = 0
    #: Setting with the step to which task queues round it up; empty: compared as it is.
    step_setting: str = ""
    #: Whether the jobs in one slot divide it among themselves.
    is_divided: bool = True
    #: The word for its unit in sentences.
    unit_name: str = ""


#: In the order in which pages show them. The limits are below that of PostgreSQL's integer, with room for rounding.
AMOUNTS = (
    Amount(
        name="processors",
        label="Processors",
        unit="",
        noun="processor",
        least=1,
        most=1024,
        condition="processors",
        jdl=("NumberOfProcessors", "Processors"),
        help_of_job="Cores; default 1.",
        help_of_slot="Cores of the slot.",
    ),
    Amount(
        name="memory_mb",
        label="Memory",
        unit="MB",
        unit_name="megabytes",
        noun="memory",
        most=2 * 10**9,
        step_setting="WMS_MEMORY_STEP_MB",
        condition="memory",
        jdl=("Memory", "MemoryMB"),
        help_of_job="Of all processes and of files in memory, such as those in /dev/shm; 0: not limited.",
        help_of_slot="Of the slot, in MB; 0: only for jobs that require no memory.",
    ),
    Amount(
        name="wall_time_s",
        label="Wall-clock time",
        unit="s",
        unit_name="seconds",
        noun="wall-clock time",
        # A year; a longer time is a mistake of units.
        most=366 * 24 * 3600,
        step_setting="WMS_WALL_TIME_STEP_S",
        is_divided=False,
        condition="wall_time",
        jdl=("WallTime",),
        help_of_job="From the start to the end of the payload, which is then stopped; 0: as long as its slot lasts.",
        help_of_slot="Seconds until the slot ends; left out: not limited.",
    ),
    Amount(
        name="gpus",
        label="GPUs",
        unit="",
        noun="GPU",
        most=1024,
        condition="gpus",
        jdl=("GPUs", "NumberOfGPUs"),
        help_of_job="Whole GPUs; default 0.",
        help_of_slot="GPUs of the slot.",
    ),
    Amount(
        name="disk_mb",
        label="Disk",
        unit="MB",
        unit_name="megabytes",
        noun="disk space",
        most=2 * 10**9,
        step_setting="WMS_DISK_STEP_MB",
        condition="disk",
        jdl=("Disk", "DiskMB"),
        help_of_job="For what the job writes; 0: not limited.",
        help_of_slot="Of the slot, in MB; 0: only for jobs that require no disk space.",
    ),
)
AMOUNT: Mapping[str, Amount] = MappingProxyType({amount.name: amount for amount in AMOUNTS})
#: Names of those that the jobs in one slot divide among themselves.
DIVIDED = tuple(amount.name for amount in AMOUNTS if amount.is_divided)


@dataclass(frozen=True)
class DividedAmounts:
    """The amounts that the jobs in one slot divide among themselves: of a job, or of a slot."""

    processors: int = 1
    memory_mb: int = 0
    gpus: int = 0
    disk_mb: int = 0


@dataclass(frozen=True)
class StatedAmounts:
    """The amounts of a slot as far as somebody states them; None: not stated."""

    processors: int | None = None
    memory_mb: int | None = None
    wall_time_s: int | None = None
    gpus: int | None = None
    disk_mb: int | None = None


@dataclass(frozen=True)
class RequiredAmounts(DividedAmounts):
    """The amounts that a job requires; those that are 0 are not required."""

    wall_time_s: int = 0


def amounts_in(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the required amounts in *source* by name, such as a stored description; a missing one is the default."""
    return {amount.name: source.get(amount.name, amount.least) for amount in AMOUNTS}


def amounts_of(owner: object) -> dict[str, Any]:
    """Return the amounts of an object with attributes of their names."""
    return {amount.name: getattr(owner, amount.name) for amount in AMOUNTS}


def divided_amounts_of(owner: object) -> dict[str, Any]:
    """Return the divided amounts of an object with attributes of their names."""
    return {name: getattr(owner, name) for name in DIVIDED}
