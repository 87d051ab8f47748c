"""The schema of the scenario file: sections of the configuration file, and the load."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from wms.configuration.records import ListOf, NamedLists, RecordOf, SectionEntry
from wms.configuration.schema import GroupEntry, PlatformEntry, SiteEntry, UserEntry, VOEntry
from wms.configuration.value_types import NameOf, Nothing, NumberType, SetOf, TextType, WholeNumberType, name

_WORD = TextType(255)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeEntry(SectionEntry):
    """``run_time`` of a load: durations of its jobs, lognormal around a mean, cut off at their time limits."""

    mean_s: Annotated[float, NumberType(least=1.0, most=1e8)]
    sigma: Annotated[float, NumberType(most=5.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEntry(SectionEntry):
    """One of ``load``: jobs of one kind; keys and defaults as in a job description where it has the key."""

    noun: ClassVar[str] = "load"
    named_by: ClassVar[str] = ""

    user: Annotated[str, TextType(150)]
    group: Annotated[str, NameOf("group")]
    jobs_per_day: Annotated[float, NumberType(most=1e6)] = 0.0
    waiting: Annotated[int, WholeNumberType(most=10**6)] = 0
    run_time: Annotated[RunTimeEntry, RecordOf(RunTimeEntry)]
    cpu_time_s: Annotated[int, WholeNumberType(least=1)] = 86400
    priority: Annotated[int, WholeNumberType(most=10)] = 1
    job_type: Annotated[str, _WORD] = "User"
    sites: Annotated[tuple[str, ...], SetOf(NameOf("site"))] = ()
    banned_sites: Annotated[tuple[str, ...], SetOf(NameOf("site"))] = ()
    grid_ces: Annotated[tuple[str, ...], SetOf(NameOf("ce"))] = ()
    platforms: Annotated[tuple[str, ...], SetOf(name())] = ()
    tags: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    processors: Annotated[int, WholeNumberType(least=1)] = 1
    memory_mb: Annotated[int, WholeNumberType()] = 0
    wall_time_s: Annotated[int, WholeNumberType()] = 0
    gpus: Annotated[int, WholeNumberType()] = 0
    disk_mb: Annotated[int, WholeNumberType()] = 0
    container: Annotated[str, TextType(1024, empty=True)] = ""
    software: Annotated[tuple[str, ...], SetOf(TextType(255))] = ()

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if not self.jobs_per_day and not self.waiting:
            yield "", "submits nothing; give jobs_per_day, or the number of jobs that are waiting at the start"
        if self.sites and not {*self.sites} - {*self.banned_sites}:
            yield "banned_sites", "bans every site that the jobs name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile(SectionEntry):
    """The whole file. Its entries take precedence over those of the named configuration file."""

    configuration: Annotated[str | None, Nothing(TextType(4096))] = None
    vos: Annotated[tuple[VOEntry, ...], ListOf(VOEntry)] = ()
    groups: Annotated[tuple[GroupEntry, ...], ListOf(GroupEntry)] = ()
    users: Annotated[tuple[UserEntry, ...], ListOf(UserEntry)] = ()
    platforms: Annotated[tuple[PlatformEntry, ...], NamedLists(PlatformEntry)] = ()
    sites: Annotated[tuple[SiteEntry, ...], ListOf(SiteEntry)] = ()
    load: Annotated[tuple[LoadEntry, ...], ListOf(LoadEntry)]
