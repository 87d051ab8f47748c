"""The part of the schema about resources: requirement definitions, platforms, storage elements, sites and below."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self

from django.conf import settings

from resources.domain.classad import MAX_BYTES
from resources.domain.enums import (
    PayloadIdentity,
    PilotType,
    RequirementKind,
    ResourceState,
    ThrottlePolicy,
    WhenExpired,
)
from resources.domain.files import BEARER, BEARER_HINT, STORAGE_URL, STORAGE_URL_HINT
from resources.domain.throttles import mistakes_in
from wms.configuration.entries import SectionEntry, keys_of
from wms.configuration.value_types import (
    Count,
    Fraction,
    Label,
    Moment,
    Name,
    Options,
    Parameters,
    ParametersByVO,
    Positive,
    Setup,
    StallWindow,
    VOName,
    one_of,
    reference_to,
    text,
)
from wms.wire.amounts import DividedAmounts

_Token = Annotated[
    str | None,
    text(
        4096,
        secret=True,
        pattern=re.compile(r"(?!wms[upj]_)[!-~]+\Z"),
        hint="use printable ASCII without blanks, and none of the prefixes wmsu_, wmsp_ and wmsj_",
    ),
]


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
    #: ClassAd expression over the advertised numbers and the job, in which names are looked up in this order.
    requirements: Annotated[str, text(MAX_BYTES, empty=True)] = ""
    #: Seconds for which an advertisement holds.
    advertisement_s: Positive = 300
    #: After the last advertisement has expired: `count`, the server counts its jobs itself; `closed`, the site gets no
    #: jobs.
    when_expired: WhenExpired = WhenExpired.COUNT

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        return mistakes_in({name: getattr(self, name) for name in keys_of(ThrottleEntry)})


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensEntry(SectionEntry):
    """``tokens`` of a site: stored as digests, and never exported."""

    #: Token by which the site registers pilots that it starts itself.
    register: _Token = None
    #: Token by which its gateway advertises load.
    advertise: _Token = None
    #: Setup of the pilots that register with the token, for VOs that have it; empty: that of their queue.
    setup: Setup = ""

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.setup and self.register is None:
            yield "setup", "requires register, the token by which pilots register"


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
    #: Setup of its pilots, for VOs that have it; empty: that of the computing element.
    setup: Setup = ""
    #: Pilots that may wait in the batch queue.
    max_waiting_pilots: Count = 10
    #: Pilots that may wait or run.
    max_pilots: Count = 100
    #: A payload with hardly any CPU time for so many seconds is stopped; 0: never; null: as for the VO.
    stalled_s: StallWindow | None = None
    #: CPU time per wall-clock time, as a part of one core, that counts as hardly any; null: as for the VO.
    stalled_cpu_fraction: Fraction | None = None
    #: Longest window that a job may set for itself; it cannot exceed that of the VO. 0 or null: as for the VO.
    max_stalled_s: StallWindow | None = None
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
    #: Setup of its pilots, for VOs that have it; empty: that of the director.
    setup: Setup = ""
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
    #: Users who administer the site (ADR 109). They need not exist yet.
    administrators: tuple[Annotated[str, reference_to("user", may_be_missing=True)], ...] = ()
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
