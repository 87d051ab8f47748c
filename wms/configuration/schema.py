"""The schema of the configuration file: every key with its type, bounds and default (docs/configuration.example.yaml).

Reading, comparing with the database, writing and exporting follow these classes. A key that the file leaves out has
its default for a new object, and keeps its value for an existing one. ``tuple[X, ...]`` is a list without order; ``X |
None`` may be null, while ``Annotated[str | None, …]`` may only be left out.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

from django.conf import settings

from resources.domain.classad import MAX_BYTES, ClassAdError, parse_expression
from resources.domain.enums import (
    PayloadIdentity,
    PilotType,
    RequirementKind,
    ResourceState,
    ThrottlePolicy,
    WhenExpired,
)
from resources.domain.files import BEARER, BEARER_HINT, STORAGE_URL, STORAGE_URL_HINT
from resources.domain.throttles import needed_by
from taskqueues.domain.limits import LARGEST_BURST, LONGEST_DELAY_S
from wms.accounts.domain import MAX_STALLED_S, MIN_STALLED_S, GroupProperty
from wms.configuration.director_kinds import DirectorKind
from wms.configuration.entries import SectionEntry, named_lists, read
from wms.configuration.problems import ConfigurationError
from wms.configuration.reading import Reading
from wms.configuration.value_types import (
    MAX_BIG_INTEGER,
    Count,
    Fraction,
    GroupName,
    Label,
    Moment,
    Name,
    Options,
    Parameters,
    ParametersByVO,
    Positive,
    SiteName,
    VOName,
    name,
    one_of,
    real_number,
    reference_to,
    text,
    whole_number,
)
from wms.wire.amounts import DividedAmounts

_Username = Annotated[str, text(150, pattern=re.compile(r"[\w.@+-]+\Z"), hint="use letters, digits and . _ @ + - only")]
_Token = Annotated[
    str | None,
    text(
        4096,
        secret=True,
        pattern=re.compile(r"(?!wms[upj]_)[!-~]+\Z"),
        hint="use printable ASCII without blanks, and none of the prefixes wmsu_, wmsp_ and wmsj_",
    ),
]
_StallWindow = Annotated[int, whole_number(MIN_STALLED_S, MAX_STALLED_S, or_zero=True)]
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
    stalled_s: _StallWindow | None = None
    #: CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: 0.05.
    stalled_cpu_fraction: Fraction | None = None
    #: Longest window that a job may set for itself; 0: any, also none; null: WMS_MAX_STALLED_S.
    max_stalled_s: _StallWindow | None = None

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
    #: May not log in; tokens are not valid, and waiting jobs are not matched.
    suspended: bool = False

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.default_group is not None and self.default_group not in self.groups:
            yield "default_group", f'"{self.default_group}" must be one of the user\'s groups'


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEntry(SectionEntry):
    """One of ``requirement_definitions``: how ``requirements`` of jobs compare with parameters of resources (RFC7)."""

    noun: ClassVar[str] = "requirement definition"
    ignores_case: ClassVar[bool] = True

    #: Name of the parameter; letter case is ignored.
    name: Name
    #: `set`: the resource has all required values. `capacity`: it has at least as much. `exact`: the values are equal.
    kind: RequirementKind
    #: Unit, as pages show it.
    unit: Annotated[str, text(32, empty=True)] = ""
    #: VOs for which it holds; empty: all.
    vos: tuple[VOName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEntry(SectionEntry):
    """One of ``platforms``: the file has the name as key, and the list as value."""

    noun: ClassVar[str] = "platform"

    #: Platform of a node.
    name: Name
    #: Platforms of jobs that such a node can run; its own is always among them.
    runs: tuple[Name, ...] = ()

    def settled(self) -> Self:
        """Return the entry with its own platform among those that it runs."""
        return replace(self, runs=tuple(sorted({self.name, *self.runs})))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageElementEntry(SectionEntry):
    """One of ``storage_elements``: where jobs read and write files."""

    noun: ClassVar[str] = "storage element"
    secrets: ClassVar[frozenset[str]] = frozenset({"credential"})

    #: Name of the storage element.
    name: Name
    #: VOs that may use it; empty: nobody.
    vos: tuple[VOName, ...] = ()
    #: Address, `file://…` or `https://…`; a file is stored at this address followed by its logical name.
    url: Annotated[str, text(500, pattern=STORAGE_URL, hint=STORAGE_URL_HINT, as_written=True)]
    #: Bearer token for the address; stored encrypted.
    credential: Annotated[str | None, text(4096, pattern=BEARER, hint=BEARER_HINT, secret=True)] = None
    #: Give the credential to pilots with a job that has files there. They, and whoever reads their memory, may read
    #: and write whatever it opens.
    credential_for_pilots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry(SectionEntry):
    """``status`` of a site, a computing element or a queue."""

    #: `active`. `draining`: no new jobs and no new pilots; what runs there ends normally. `banned`: in addition,
    #: waiting pilots are removed and none may register.
    state: ResourceState
    #: Why; users see it. Required unless it is active.
    reason: Annotated[str, text(empty=True)] = ""
    #: End of the state; then it is active again. Null: no end.
    until: Moment | None = None

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.state != ResourceState.ACTIVE and not self.reason.strip():
            yield "reason", f"give the reason why it is {self.state}; users see it"
        if self.state == ResourceState.ACTIVE and self.until is not None:
            yield "until", "an active resource has no end; leave it out"


ACTIVE = StatusEntry(state=ResourceState.ACTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleEntry(SectionEntry):
    """``throttle`` of a site: limits the flow of jobs by the load that the site advertises (SAM)."""

    terse: ClassVar[bool] = True

    #: What is limited: `matches` needs `max_matches`; `level0` needs `max_submitting_jobs`; `level1` needs
    #: `max_submitting_and_output_gathering_jobs`; `level2` needs that and `max_jobs`; `custom` needs `requirements`.
    policy: ThrottlePolicy
    #: Matches since the measurement.
    max_matches: Count | None = None
    #: Jobs that the gateway is submitting.
    max_submitting_jobs: Count | None = None
    #: Jobs that it is submitting, or whose output it is gathering.
    max_submitting_and_output_gathering_jobs: Count | None = None
    #: Jobs at the site.
    max_jobs: Count | None = None
    #: ClassAd expression over the advertised numbers and the job.
    requirements: Annotated[str, text(MAX_BYTES, empty=True)] = ""
    #: Seconds for which an advertisement holds.
    advertisement_s: Positive = 300
    #: After the last advertisement has expired: `count`, the server counts its jobs itself; `closed`, the site gets no
    #: jobs.
    when_expired: WhenExpired = WhenExpired.COUNT

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        for needed in needed_by(ThrottlePolicy(self.policy), expression="requirements"):
            if getattr(self, needed) in {None, ""}:
                yield "policy", f"{self.policy} needs {needed}"
        if self.requirements:
            try:
                parse_expression(self.requirements)
            except ClassAdError as error:
                yield "requirements", f"not a ClassAd expression: {error}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensEntry(SectionEntry):
    """``tokens`` of a site: stored as digests, and never exported."""

    #: Token by which the site registers pilots that it starts itself.
    register: _Token = None
    #: Token by which its gateway advertises load.
    advertise: _Token = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry(DividedAmounts, SectionEntry):
    """One of ``queues`` of a computing element: batch queues, whose slots are all alike."""

    noun: ClassVar[str] = "queue"
    terse: ClassVar[bool] = True

    #: Name of the queue in the batch system.
    name: Name
    #: CPU time of a slot, in reference-core seconds per core.
    cpu_time_s: Positive
    #: Platforms of its nodes; empty: those that its nodes report.
    platforms: tuple[Name, ...] = ()
    # What one of its slots offers beside the amounts.
    wall_time_s: Positive | None = None
    #: Whether its nodes can run containers.
    container: bool = False
    # Which jobs and how many pilots it takes.
    #: Types of jobs that it takes; empty: all.
    job_types: tuple[Label, ...] = ()
    #: Tags that jobs may require.
    tags: tuple[Label, ...] = ()
    #: Tags that jobs must require to run here; they must be among `tags`.
    required_tags: tuple[Label, ...] = ()
    #: Pilots that may wait in the batch queue.
    max_waiting_pilots: Count = 10
    #: Pilots that may wait or run.
    max_pilots: Count = 100
    #: A payload with hardly any CPU time for so many seconds is stopped; 0: never; null: as for the VO.
    stalled_s: _StallWindow | None = None
    #: CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: as for the VO.
    stalled_cpu_fraction: Fraction | None = None
    #: Longest window that a job may set for itself; it cannot exceed that of the VO. 0 or null: as for the VO.
    max_stalled_s: _StallWindow | None = None
    #: State of the queue.
    status: StatusEntry = ACTIVE
    #: Parameters that jobs' `requirements` compare; they precede those of the computing element.
    parameters: Parameters = field(default_factory=dict)
    #: The same for jobs of one VO; they precede the general ones of the same level.
    vo_parameters: ParametersByVO = field(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        missing = sorted({*self.required_tags} - {*self.tags})
        if missing:
            yield "required_tags", f"must be among the queue's tags, where {', '.join(missing)} is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CEEntry(SectionEntry):
    """One of ``ces`` of a site: computing elements, to which pilots are sent."""

    noun: ClassVar[str] = "ce"
    terse: ClassVar[bool] = True
    children: ClassVar[str] = "queues"

    #: Name of the computing element.
    name: Name
    #: Batch system; required of a new one. computing-elements.md lists their options.
    type: Annotated[str, one_of(settings.WMS_BACKENDS)] = ""
    #: Name by which jobs may name it in `grid_middlewares`; empty: the type.
    middleware: Annotated[str, text(128, empty=True)] = ""
    #: Options of the type: host, partition, account and so on.
    options: Options = field(default_factory=dict)
    #: Types of pilots that it accepts; empty: both.
    pilot_types: tuple[PilotType, ...] = ()
    #: Unix account of payloads. `none`: that of the pilot. `environment`: the same, with the owner's name in USER and
    #: LOGNAME. `sudo`: another one.
    identity: PayloadIdentity = PayloadIdentity.NONE
    #: State of the computing element.
    status: StatusEntry = ACTIVE
    #: Parameters that jobs' `requirements` compare; they precede those of the site, and queues inherit them.
    parameters: Parameters = field(default_factory=dict)
    #: The same for jobs of one VO; they precede the general ones of the same level.
    vo_parameters: ParametersByVO = field(default_factory=dict)
    #: Its batch queues.
    queues: tuple[QueueEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry(SectionEntry):
    """One of ``sites``."""

    noun: ClassVar[str] = "site"
    secrets: ClassVar[frozenset[str]] = frozenset({"tokens"})
    children: ClassVar[str] = "ces"

    #: Name of the site.
    name: Name
    #: VOs that the site serves; empty: all.
    vos: tuple[VOName, ...] = ()
    #: State of the site.
    status: StatusEntry = ACTIVE
    #: Parameters that jobs' `requirements` compare; computing elements and queues inherit them, and may give other
    #: values.
    parameters: Parameters = field(default_factory=dict)
    #: The same for jobs of one VO; they precede the general ones of the same level.
    vo_parameters: ParametersByVO = field(default_factory=dict)
    #: Containers give jobs the platforms of their queue, whatever the nodes are.
    containers_provide_platforms: bool = False
    #: Limit on the flow of jobs; null: none.
    throttle: ThrottleEntry | None = None
    #: Storage elements that are close to the site.
    storage_elements: tuple[Annotated[str, reference_to("storage element")], ...] = ()
    #: Tokens of the site. A token that is left out stays as it is.
    tokens: TokensEntry | None = None
    #: Its computing elements.
    ces: tuple[CEEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorEntry(SectionEntry):
    """One of ``directors``: they send pilots. If none is configured, one director of kind ``site`` serves all sites."""

    noun: ClassVar[str] = "director"

    #: Name of the director.
    name: Annotated[str, name(64)]
    #: `site`: iterates over sites. `taskqueue`: iterates over task queues.
    kind: DirectorKind = DirectorKind.SITE
    #: Sites to which it sends pilots; empty: all.
    sites: tuple[SiteName, ...] = ()
    #: Types of jobs for which it sends pilots; empty: all.
    job_types: tuple[Label, ...] = ()
    #: Pilots that it may send in one cycle.
    pilots_per_cycle: Positive = 40
    #: Of the pilots that may be of either type, the part that is private.
    private_fraction: Fraction = 0.0


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
        if self.scope == ScopeEntry():
            yield "scope", "name at least one of vo, site, ce, group, user and job_type"
        if {self.running, self.waiting, self.cpu_s_per_day, self.delay_s} == {None}:
            yield "", "requires running, waiting, cpu_s_per_day or delay_s"
        if self.burst is not None and self.delay_s is None:
            yield "burst", "requires delay_s, which is missing"
        if self.waiting is not None and (self.scope.site is not None or self.scope.ce is not None):
            yield "waiting", "a limit of waiting jobs has no site and no ce; leave both out, or limit running"


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
