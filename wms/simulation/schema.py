"""The scenario file, declared once: sections of the configuration file, and the load."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from wms.configuration.records import Entry, ListOf, NamedLists, RecordOf
from wms.configuration.schema import GroupEntry, PlatformEntry, SiteEntry, UserEntry, VOEntry
from wms.configuration.value_types import NameOf, Nothing, Number, SetOf, Text, WholeNumber, name

_WORD = Text(255)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeEntry(Entry):
    """``run_time`` of a load: how long its jobs run, lognormal around a mean; then their time limits stop them."""

    mean_s: Annotated[float, Number(least=1.0, most=1e8)]
    sigma: Annotated[float, Number(most=5.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEntry(Entry):
    """One of ``load``: jobs of one kind; named and defaulted as in a job description where that has the key."""

    noun: ClassVar[str] = "load"
    named_by: ClassVar[str] = ""

    user: Annotated[str, Text(150)]
    group: Annotated[str, NameOf("group")]
    jobs_per_day: Annotated[float, Number(most=1e6)] = 0.0
    waiting: Annotated[int, WholeNumber(most=10**6)] = 0
    run_time: Annotated[RunTimeEntry, RecordOf(RunTimeEntry)]
    cpu_time_s: Annotated[int, WholeNumber(least=1)] = 86400
    priority: Annotated[int, WholeNumber(most=10)] = 1
    job_type: Annotated[str, _WORD] = "User"
    sites: Annotated[tuple[str, ...], SetOf(NameOf("site"))] = ()
    banned_sites: Annotated[tuple[str, ...], SetOf(NameOf("site"))] = ()
    grid_ces: Annotated[tuple[str, ...], SetOf(NameOf("ce"))] = ()
    platforms: Annotated[tuple[str, ...], SetOf(name())] = ()
    tags: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    processors: Annotated[int, WholeNumber(least=1)] = 1
    memory_mb: Annotated[int, WholeNumber()] = 0
    wall_time_s: Annotated[int, WholeNumber()] = 0
    gpus: Annotated[int, WholeNumber()] = 0
    disk_mb: Annotated[int, WholeNumber()] = 0
    container: Annotated[str, Text(1024, empty=True)] = ""
    software: Annotated[tuple[str, ...], SetOf(Text(255))] = ()

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for what does not go together."""
        if not self.jobs_per_day and not self.waiting:
            yield "", "submits nothing; give jobs_per_day, or the number of jobs that are waiting at the start"
        if self.sites and not {*self.sites} - {*self.banned_sites}:
            yield "banned_sites", "bans every site that the jobs name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile(Entry):
    """The whole file. What it says of an object of the configuration named goes before what is said there."""

    configuration: Annotated[str | None, Nothing(Text(4096))] = None
    vos: Annotated[tuple[VOEntry, ...], ListOf(VOEntry)] = ()
    groups: Annotated[tuple[GroupEntry, ...], ListOf(GroupEntry)] = ()
    users: Annotated[tuple[UserEntry, ...], ListOf(UserEntry)] = ()
    platforms: Annotated[tuple[PlatformEntry, ...], NamedLists(PlatformEntry)] = ()
    sites: Annotated[tuple[SiteEntry, ...], ListOf(SiteEntry)] = ()
    load: Annotated[tuple[LoadEntry, ...], ListOf(LoadEntry)]
