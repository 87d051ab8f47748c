"""The schema of the configuration file: every key with its type, bounds and default (docs/configuration.example.yaml).

Reading, comparing with the database, writing and exporting follow these classes. A key that the file leaves out has
its default for a new object, and keeps its value for an existing one. ``tuple[X, ...]`` is a list without order; ``X |
None`` may be null, while ``Annotated[str | None, …]`` may only be left out.
"""

import re
from collections.abc import Iterator
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
from wms.configuration.entries import SectionEntry, named_lists
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
from wms.kernel.amounts import DividedAmounts

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
    """One of ``vos``."""

    noun: ClassVar[str] = "vo"

    name: Annotated[str, name(64)]
    setup: Annotated[str, text(64)]
    setups: tuple[Annotated[str, text(64)], ...] = ()
    managers: tuple[_Manager, ...] = ()
    history_fair_share: bool = False
    any_segment_fraction: Fraction = 0.0
    stalled_s: _StallWindow | None = None
    stalled_cpu_fraction: Fraction | None = None
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
    """One of ``groups``."""

    noun: ClassVar[str] = "group"

    name: Annotated[str, name(64)]
    vo: VOName
    priority: Annotated[float, real_number()] = 1.0
    properties: tuple[GroupProperty, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEntry(SectionEntry):
    """One of ``users``."""

    noun: ClassVar[str] = "user"
    named_by: ClassVar[str] = "username"
    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    username: _Username
    password: Annotated[str | None, text(1024, secret=True)] = None
    dns: tuple[Label, ...] = ()
    groups: tuple[GroupName, ...] = ()
    default_group: GroupName | None = None
    staff: bool = False
    superuser: bool = False
    operator: bool = False
    suspended: bool = False

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.default_group is not None and self.default_group not in self.groups:
            yield "default_group", f'"{self.default_group}" must be one of the user\'s groups'


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEntry(SectionEntry):
    """One of ``requirement_definitions``."""

    noun: ClassVar[str] = "requirement definition"
    ignores_case: ClassVar[bool] = True

    name: Name
    kind: RequirementKind
    unit: Annotated[str, text(32, empty=True)] = ""
    vos: tuple[VOName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEntry(SectionEntry):
    """One of ``platforms``: the file has the name as key, and the list as value."""

    noun: ClassVar[str] = "platform"

    name: Name
    runs: tuple[Name, ...] = ()

    def settled(self) -> Self:
        """Return the entry with its own platform among those that it runs."""
        return replace(self, runs=tuple(sorted({self.name, *self.runs})))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageElementEntry(SectionEntry):
    """One of ``storage_elements``."""

    noun: ClassVar[str] = "storage element"
    secrets: ClassVar[frozenset[str]] = frozenset({"credential"})

    name: Name
    vos: tuple[VOName, ...] = ()
    url: Annotated[str, text(500, pattern=STORAGE_URL, hint=STORAGE_URL_HINT, as_written=True)]
    credential: Annotated[str | None, text(4096, pattern=BEARER, hint=BEARER_HINT, secret=True)] = None
    credential_for_pilots: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry(SectionEntry):
    """``status`` of a site, a computing element or a queue."""

    state: ResourceState
    reason: Annotated[str, text(empty=True)] = ""
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
    """``throttle`` of a site (SAM)."""

    terse: ClassVar[bool] = True

    policy: ThrottlePolicy
    max_matches: Count | None = None
    max_submitting_jobs: Count | None = None
    max_submitting_and_output_gathering_jobs: Count | None = None
    max_jobs: Count | None = None
    requirements: Annotated[str, text(MAX_BYTES, empty=True)] = ""
    advertisement_s: Positive = 300
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
    """``tokens`` of a site."""

    register: _Token = None
    advertise: _Token = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry(DividedAmounts, SectionEntry):
    """One of ``queues`` of a computing element."""

    noun: ClassVar[str] = "queue"
    terse: ClassVar[bool] = True

    name: Name
    cpu_time_s: Positive
    platforms: tuple[Name, ...] = ()
    # What one of its slots offers beside the amounts.
    wall_time_s: Positive | None = None
    container: bool = False
    # Which jobs and how many pilots it takes.
    job_types: tuple[Label, ...] = ()
    tags: tuple[Label, ...] = ()
    required_tags: tuple[Label, ...] = ()
    max_waiting_pilots: Count = 10
    max_pilots: Count = 100
    stalled_s: _StallWindow | None = None
    stalled_cpu_fraction: Fraction | None = None
    max_stalled_s: _StallWindow | None = None
    status: StatusEntry = ACTIVE
    parameters: Parameters = field(default_factory=dict)
    vo_parameters: ParametersByVO = field(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        missing = sorted({*self.required_tags} - {*self.tags})
        if missing:
            yield "required_tags", f"must be among the queue's tags, where {', '.join(missing)} is missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class CEEntry(SectionEntry):
    """One of ``ces`` of a site."""

    noun: ClassVar[str] = "ce"
    terse: ClassVar[bool] = True
    children: ClassVar[str] = "queues"

    name: Name
    #: Empty: left out, which is refused for a new CE; a simulation ignores it.
    type: Annotated[str, one_of(settings.WMS_BACKENDS)] = ""
    middleware: Annotated[str, text(128, empty=True)] = ""
    options: Options = field(default_factory=dict)
    pilot_types: tuple[PilotType, ...] = ()
    identity: PayloadIdentity = PayloadIdentity.NONE
    status: StatusEntry = ACTIVE
    parameters: Parameters = field(default_factory=dict)
    vo_parameters: ParametersByVO = field(default_factory=dict)
    queues: tuple[QueueEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry(SectionEntry):
    """One of ``sites``."""

    noun: ClassVar[str] = "site"
    secrets: ClassVar[frozenset[str]] = frozenset({"tokens"})
    children: ClassVar[str] = "ces"

    name: Name
    vos: tuple[VOName, ...] = ()
    status: StatusEntry = ACTIVE
    parameters: Parameters = field(default_factory=dict)
    vo_parameters: ParametersByVO = field(default_factory=dict)
    containers_provide_platforms: bool = False
    throttle: ThrottleEntry | None = None
    storage_elements: tuple[Annotated[str, reference_to("storage element")], ...] = ()
    tokens: TokensEntry | None = None
    ces: tuple[CEEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorEntry(SectionEntry):
    """One of ``directors``."""

    noun: ClassVar[str] = "director"

    name: Annotated[str, name(64)]
    kind: DirectorKind = DirectorKind.SITE
    sites: tuple[SiteName, ...] = ()
    job_types: tuple[Label, ...] = ()
    pilots_per_cycle: Positive = 40
    private_fraction: Fraction = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEntry(SectionEntry):
    """``scope`` of a limit."""

    terse: ClassVar[bool] = True

    vo: Annotated[str | None, reference_to("vo")] = None
    site: Annotated[str | None, reference_to("site")] = None
    ce: Annotated[str | None, reference_to("ce")] = None
    group: Annotated[str | None, reference_to("group")] = None
    user: Annotated[str | None, reference_to("user")] = None
    job_type: Annotated[str | None, text()] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry(SectionEntry):
    """One of ``limits``."""

    noun: ClassVar[str] = "limit"
    terse: ClassVar[bool] = True
    named_by: ClassVar[str] = ""

    scope: ScopeEntry
    running: Count | None = None
    waiting: Count | None = None
    cpu_s_per_day: Annotated[int, whole_number(most=MAX_BIG_INTEGER)] | None = None
    delay_s: Annotated[float, real_number(most=LONGEST_DELAY_S)] | None = None
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

    vos: tuple[VOEntry, ...] = ()
    groups: tuple[GroupEntry, ...] = ()
    users: tuple[UserEntry, ...] = ()
    requirement_definitions: tuple[DefinitionEntry, ...] = ()
    platforms: Annotated[tuple[PlatformEntry, ...], named_lists(PlatformEntry)] = ()
    storage_elements: tuple[StorageElementEntry, ...] = ()
    sites: tuple[SiteEntry, ...] = ()
    directors: tuple[DirectorEntry, ...] = ()
    limits: tuple[LimitEntry, ...] = ()
