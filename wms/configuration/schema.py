"""The schema of the configuration file: every key with its type, bounds and default (docs/configuration.example.yaml).

Reading, comparing with the database, writing and exporting follow these classes. A key that the file leaves out has
its default for a new object, and keeps its value for an existing one. ``tuple[X, ...]`` is a list without order; ``X |
None`` may be null, while ``Annotated[str | None, …]`` may only be left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, ClassVar, Self

from pilots.domain.director_query import flaw_of
from resources.domain.classad import MAX_BYTES
from taskqueues.domain.limits import BOUNDS, LARGEST_BURST, LONGEST_DELAY_S, SCOPE, contradictions_in
from wms.accounts.domain import GroupProperty
from wms.configuration.entries import SectionEntry, named_lists, read
from wms.configuration.problems import ConfigurationError
from wms.configuration.reading import Reading
from wms.configuration.resource_schema import DefinitionEntry, PlatformEntry, SiteEntry, StorageElementEntry
from wms.configuration.value_types import (
    MAX_BIG_INTEGER,
    Age,
    Count,
    Fraction,
    GroupName,
    Label,
    Positive,
    Setup,
    SiteName,
    StallWindow,
    VOName,
    name,
    real_number,
    reference_to,
    text,
    whole_number,
)


class DirectorKind(StrEnum):
    """The slot that a director requests for each pilot: a whole one, or what the jobs need (ADR 20)."""

    SITE = "site"
    TASK_QUEUE = "taskqueue"


_Username = Annotated[str, text(150, pattern=re.compile(r"[\w.@+-]+\Z"), hint="use letters, digits and . _ @ + - only")]
_Manager = Annotated[str, reference_to("user", may_be_missing=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VOEntry(SectionEntry):
    """One of ``vos``: virtual organisations."""

    noun: ClassVar[str] = "vo"

    #: Name of the VO.
    name: Annotated[str, name(64)]
    #: Setup of jobs and pilots that name none.
    setup: Annotated[str, text(64)]
    #: All setups that jobs may name; `setup` must be among them. Left out: `setup` only.
    setups: tuple[Annotated[str, text(64)], ...] = ()
    #: Users who manage the VO. They need not exist yet.
    managers: tuple[_Manager, ...] = ()
    #: Correct the shares of groups by their recent usage, by a factor of 3 at most in either direction.
    history_fair_share: bool = False
    #: Part of the matches in which jobs of all CPU segments compete, not the longest alone: above 0, so that long jobs
    #: cannot starve short ones for ever.
    any_segment_fraction: Fraction = 0.0
    #: A payload with hardly any CPU time for so many seconds is stopped; 0: never; null: 1800 s.
    stalled_s: StallWindow | None = None
    #: CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: 0.05.
    stalled_cpu_fraction: Fraction | None = None
    #: Longest window that a job may set for itself; 0: any, also none; null: WMS_MAX_STALLED_S.
    max_stalled_s: StallWindow | None = None
    #: Show administrators of sites why jobs failed there, and the last lines of their output.
    outputs_for_sites: bool = False
    #: Days for which Done jobs are kept after their end; 0: for ever; null: WMS_KEEP_JOBS_DAYS. Nothing is removed
    #: before an operator allows it (`wms-server retention`).
    keep_done_days: Age | None = None
    #: The same of Failed jobs.
    keep_failed_days: Age | None = None
    #: The same of Killed jobs.
    keep_killed_days: Age | None = None
    #: The same of Deleted jobs; null: WMS_KEEP_DELETED_JOBS_DAYS.
    keep_deleted_days: Age | None = None

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.setups and self.setup not in self.setups:
            yield "setup", f'"{self.setup}" must be one of setups ({", ".join(self.setups)})'

    def settled(self) -> Self:
        """Return the entry with its default setup as the only one, if it names none."""
        return replace(self, setups=self.setups or (self.setup,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEntry(SectionEntry):
    """One of ``groups``: the groups of a VO, among which its share is divided."""

    noun: ClassVar[str] = "group"

    #: Name of the group; unique on the server.
    name: Annotated[str, name(64)]
    #: Its VO.
    vo: VOName
    #: Share of the group, relative to the other groups of the VO; 0: its jobs are never matched.
    priority: Annotated[float, real_number()] = 1.0
    #: `JOB_SHARING`: members see and control each other's jobs, and share the group's priority. `PRODUCTION`: any
    #: number of jobs of one user may wait.
    properties: tuple[GroupProperty, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEntry(SectionEntry):
    """One of ``users``: accounts. A user who logs in by OpenID Connect needs no entry."""

    noun: ClassVar[str] = "user"
    named_by: ClassVar[str] = "username"
    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    #: User name.
    username: _Username
    #: Password. The rules on strong passwords do not apply here. Null, for a new user: no log-in by password.
    password: Annotated[str | None, text(1024, secret=True)] = None
    #: Names of the user's certificates.
    dns: tuple[Label, ...] = ()
    #: Groups in which the user may act.
    groups: tuple[GroupName, ...] = ()
    #: Group of submissions that name none; one of `groups`.
    default_group: GroupName | None = None
    #: May log in to the administration.
    staff: bool = False
    #: Has all rights in the administration.
    superuser: bool = False
    #: Sees and manages every VO.
    operator: bool = False
    #: May not log in; tokens are not valid, running jobs are killed, and waiting jobs are not matched.
    suspended: bool = False

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.default_group is not None and self.default_group not in self.groups:
            yield "default_group", f'"{self.default_group}" must be one of the user\'s groups'


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorEntry(SectionEntry):
    """One of ``directors``: they send pilots. If none is configured, one director of kind ``site`` serves all sites."""

    noun: ClassVar[str] = "director"

    #: Name of the director.
    name: Annotated[str, name(64)]
    #: What it requests for each pilot. `site`: a whole slot of the batch queue. `taskqueue`: what the jobs need, at
    #: most a slot, so that it starts sooner.
    kind: DirectorKind = DirectorKind.SITE
    #: Sites to which it sends pilots; empty: all.
    sites: tuple[SiteName, ...] = ()
    #: Types of jobs for which it sends pilots; empty: all.
    job_types: tuple[Label, ...] = ()
    #: ClassAd expression over the attributes of a task queue, such as `GPUs > 0 && VO == "lhcb"`; it sends pilots for
    #: those of which it is TRUE; empty: all.
    requirements: Annotated[str, text(MAX_BYTES, empty=True)] = ""
    #: Setup of its pilots, for VOs that have it, where neither queue nor computing element chooses one; empty: that of
    #: the jobs.
    setup: Setup = ""
    #: Pilots that it may send in one cycle.
    pilots_per_cycle: Positive = 40
    #: Of the pilots that may be of either type, the part that is private.
    private_fraction: Fraction = 0.0

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.requirements and (flaw := flaw_of(self.requirements)):
            yield "requirements", flaw


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEntry(SectionEntry):
    """``scope`` of a limit: the jobs that it counts. All keys that are given must hold; at least one is required."""

    terse: ClassVar[bool] = True

    #: Jobs of this VO.
    vo: Annotated[str | None, reference_to("vo")] = None
    #: Jobs at this site.
    site: Annotated[str | None, reference_to("site")] = None
    #: Jobs at this computing element.
    ce: Annotated[str | None, reference_to("ce")] = None
    #: Jobs of this group.
    group: Annotated[str | None, reference_to("group")] = None
    #: Jobs of this user.
    user: Annotated[str | None, reference_to("user")] = None
    #: Jobs of this type.
    job_type: Annotated[str | None, text()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry(SectionEntry):
    """One of ``limits``: a file that states ``limits`` states all. Each has one or more of the keys below ``scope``."""

    noun: ClassVar[str] = "limit"
    terse: ClassVar[bool] = True
    named_by: ClassVar[str] = ""

    #: The jobs that it counts.
    scope: ScopeEntry
    #: Jobs held by pilots at a time.
    running: Count | None = None
    #: Jobs in task queues at a time; not together with a site or computing element.
    waiting: Count | None = None
    #: CPU time, in seconds, that jobs have reported in the last 24 hours.
    cpu_s_per_day: Annotated[int, whole_number(most=MAX_BIG_INTEGER)] | None = None
    #: Mean seconds between two matches.
    delay_s: Annotated[float, real_number(most=LONGEST_DELAY_S)] | None = None
    #: Matches at once after a pause; needs `delay_s`.
    burst: Annotated[int, whole_number(1, LARGEST_BURST)] | None = None

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        return self.mistakes_with(vo_of_group=None)

    def mistakes_with(self, *, vo_of_group: str | None) -> Iterator[tuple[str, str]]:
        """Yield the same, and whether the group is of another VO."""
        values = {name: getattr(self.scope, name) for name in SCOPE} | {name: getattr(self, name) for name in BOUNDS}
        for key, sentence in contradictions_in(values, vo_of_group=vo_of_group):
            yield "scope" if key in {"", *SCOPE} else key, sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration(SectionEntry):
    """The whole file."""

    #: Virtual organisations.
    vos: tuple[VOEntry, ...] = ()
    #: Groups of VOs, with their shares.
    groups: tuple[GroupEntry, ...] = ()
    #: Accounts.
    users: tuple[UserEntry, ...] = ()
    #: Definitions of parameters that jobs may require.
    requirement_definitions: tuple[DefinitionEntry, ...] = ()
    #: Platforms of nodes, each with the platforms of jobs that it can run.
    platforms: Annotated[tuple[PlatformEntry, ...], named_lists(PlatformEntry)] = ()
    #: Storage elements.
    storage_elements: tuple[StorageElementEntry, ...] = ()
    #: Sites with computing elements and queues.
    sites: tuple[SiteEntry, ...] = ()
    #: Directors, which send pilots.
    directors: tuple[DirectorEntry, ...] = ()
    #: Limits on jobs.
    limits: tuple[LimitEntry, ...] = ()


def check(source: bytes, *, environ: Mapping[str, str]) -> None:
    """Check all of a configuration file that can be checked without the database.

    Args:
        source: the file, YAML in UTF-8.
        environ: values of ``${NAME}``.

    Raises:
        ConfigurationError: with the errors of the file.
    """
    reading = Reading(environ)
    read(source, Configuration, reading)
    if reading.problems:
        raise ConfigurationError(reading.problems)
