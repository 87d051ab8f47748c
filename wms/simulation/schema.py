"""The schema of the scenario file: sections of the configuration file, and the load."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from wms.configuration.entries import SectionEntry, named_lists
from wms.configuration.resource_schema import PlatformEntry, SiteEntry
from wms.configuration.schema import GroupEntry, UserEntry, VOEntry
from wms.configuration.value_types import (
    CEName,
    GroupName,
    Label,
    Name,
    Positive,
    SiteName,
    real_number,
    text,
    whole_number,
)
from wms.wire.amounts import RequiredAmounts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTimeEntry(SectionEntry):
    """``run_time`` of a load: durations of its jobs, lognormal around a mean, cut off at their time limits."""

    mean_s: Annotated[float, real_number(1.0, 1e8)]
    sigma: Annotated[float, real_number(most=5.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadEntry(RequiredAmounts, SectionEntry):
    """One of ``load``: jobs of one kind; keys and defaults as in a job description where it has the key."""

    noun: ClassVar[str] = "load"
    named_by: ClassVar[str] = ""

    user: Annotated[str, text(150)]
    group: GroupName
    jobs_per_day: Annotated[float, real_number(most=1e6)] = 0.0
    waiting: Annotated[int, whole_number(most=10**6)] = 0
    run_time: RunTimeEntry
    cpu_time_s: Positive = 86400
    priority: Annotated[int, whole_number(most=10)] = 1
    job_type: Label = "User"
    sites: tuple[SiteName, ...] = ()
    banned_sites: tuple[SiteName, ...] = ()
    grid_ces: tuple[CEName, ...] = ()
    platforms: tuple[Name, ...] = ()
    tags: tuple[Label, ...] = ()
    container: Annotated[str, text(1024, empty=True)] = ""
    software: tuple[Label, ...] = ()

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if not self.jobs_per_day and not self.waiting:
            yield "", "submits nothing; give jobs_per_day, or the number of jobs that are waiting at the start"
        if self.sites and not {*self.sites} - {*self.banned_sites}:
            yield "banned_sites", "bans every site that the jobs name"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioFile(SectionEntry):
    """The whole file. Its entries take precedence over those of the named configuration file."""

    configuration: Annotated[str, text(4096)] | None = None
    vos: tuple[VOEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    users: tuple[UserEntry, ...] = ()
    platforms: Annotated[tuple[PlatformEntry, ...], named_lists(PlatformEntry)] = ()
    sites: tuple[SiteEntry, ...] = ()
    load: tuple[LoadEntry, ...]
