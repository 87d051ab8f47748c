"""The schema of the configuration file: every key with its type and default (docs/configuration.example.yaml).

Reading, comparing with the database and exporting follow these classes. A key that the file leaves out has its
default for a new object, and keeps its value for an existing one.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
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
from wms.configuration.records import ListOf, NamedLists, RecordOf, SectionEntry
from wms.configuration.value_types import (
    MAX_BIG_INTEGER,
    ChoiceType,
    FlagType,
    Instant,
    NameOf,
    Nothing,
    NumberType,
    OptionsType,
    Parameters,
    ParametersByVO,
    SetOf,
    TextType,
    WholeNumberType,
    name,
)

Free = Mapping[str, object]

_USERNAME = TextType(150, pattern=re.compile(r"[\w.@+-]+\Z"), hint="use letters, digits and . _ @ + - only")
_STORAGE_URL = TextType(500, pattern=STORAGE_URL, hint=STORAGE_URL_HINT, as_written=True)
_TOKEN = TextType(
    4096,
    secret=True,
    pattern=re.compile(r"(?!wms[upj]_)[!-~]+\Z"),
    hint="use printable ASCII without blanks, and none of the prefixes wmsu_, wmsp_ and wmsj_",
)
_WORD = TextType(255)
_SECRET = TextType(4096, secret=True)
_BEARER = TextType(4096, secret=True, pattern=BEARER, hint=BEARER_HINT)
_LIMIT = Nothing(WholeNumberType())
_STALL_WINDOW = Nothing(WholeNumberType(least=MIN_STALLED_S, most=MAX_STALLED_S, or_zero=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class VOEntry(SectionEntry):
    """One of ``vos``."""

    noun: ClassVar[str] = "vo"

    name: Annotated[str, name(64)]
    setup: Annotated[str, TextType(64)]
    setups: Annotated[tuple[str, ...], SetOf(TextType(64))] = ()
    managers: Annotated[tuple[str, ...], SetOf(NameOf("user", may_be_missing=True))] = ()
    history_fair_share: Annotated[bool, FlagType()] = False
    any_segment_fraction: Annotated[float, NumberType(most=1.0)] = 0.0
    stalled_s: Annotated[int | None, _STALL_WINDOW] = None
    stalled_cpu_fraction: Annotated[float | None, Nothing(NumberType(most=1.0))] = None
    max_stalled_s: Annotated[int | None, _STALL_WINDOW] = None

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
    vo: Annotated[str, NameOf("vo")]
    priority: Annotated[float, NumberType()] = 1.0
    properties: Annotated[tuple[str, ...], SetOf(ChoiceType(GroupProperty))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UserEntry(SectionEntry):
    """One of ``users``."""

    noun: ClassVar[str] = "user"
    named_by: ClassVar[str] = "username"
    secrets: ClassVar[frozenset[str]] = frozenset({"password"})

    username: Annotated[str, _USERNAME]
    password: Annotated[str | None, TextType(1024, secret=True)] = None
    dns: Annotated[tuple[str, ...], SetOf(TextType(255))] = ()
    groups: Annotated[tuple[str, ...], SetOf(NameOf("group"))] = ()
    default_group: Annotated[str | None, Nothing(NameOf("group"))] = None
    staff: Annotated[bool, FlagType()] = False
    superuser: Annotated[bool, FlagType()] = False
    operator: Annotated[bool, FlagType()] = False
    suspended: Annotated[bool, FlagType()] = False

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.default_group is not None and self.default_group not in self.groups:
            yield "default_group", f'"{self.default_group}" must be one of the user\'s groups'


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionEntry(SectionEntry):
    """One of ``requirement_definitions``."""

    noun: ClassVar[str] = "requirement definition"
    ignores_case: ClassVar[bool] = True

    name: Annotated[str, name()]
    kind: Annotated[str, ChoiceType(RequirementKind)]
    unit: Annotated[str, TextType(32, empty=True)] = ""
    vos: Annotated[tuple[str, ...], SetOf(NameOf("vo"))] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformEntry(SectionEntry):
    """One of ``platforms``: the file has the name as key, and the list as value."""

    noun: ClassVar[str] = "platform"

    name: Annotated[str, name()]
    runs: Annotated[tuple[str, ...], SetOf(name())] = ()

    def settled(self) -> Self:
        """Return the entry with its own platform among those that it runs."""
        return replace(self, runs=tuple(sorted({self.name, *self.runs})))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageElementEntry(SectionEntry):
    """One of ``storage_elements``."""

    noun: ClassVar[str] = "storage element"
    secrets: ClassVar[frozenset[str]] = frozenset({"credential"})

    name: Annotated[str, name()]
    vos: Annotated[tuple[str, ...], SetOf(NameOf("vo"))] = ()
    url: Annotated[str, _STORAGE_URL]
    credential: Annotated[str | None, _BEARER] = None
    credential_for_pilots: Annotated[bool, FlagType()] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusEntry(SectionEntry):
    """``status`` of a site, a computing element or a queue."""

    state: Annotated[str, ChoiceType(ResourceState)]
    reason: Annotated[str, TextType(255, empty=True)] = ""
    until: Annotated[datetime | None, Nothing(Instant())] = None

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.state != ResourceState.ACTIVE and not self.reason.strip():
            yield "reason", f"say why it is {self.state}; physicists see it"
        if self.state == ResourceState.ACTIVE and self.until is not None:
            yield "until", "what is active has no end; leave it out"


ACTIVE = StatusEntry(state=ResourceState.ACTIVE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleEntry(SectionEntry):
    """``throttle`` of a site (SAM)."""

    terse: ClassVar[bool] = True

    policy: Annotated[str, ChoiceType(ThrottlePolicy)]
    max_matches: Annotated[int | None, _LIMIT] = None
    max_submitting_jobs: Annotated[int | None, _LIMIT] = None
    max_submitting_and_output_gathering_jobs: Annotated[int | None, _LIMIT] = None
    max_jobs: Annotated[int | None, _LIMIT] = None
    requirements: Annotated[str, TextType(MAX_BYTES, empty=True)] = ""
    advertisement_s: Annotated[int, WholeNumberType(least=1)] = 300
    when_expired: Annotated[str, ChoiceType(WhenExpired)] = WhenExpired.COUNT

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

    register: Annotated[str | None, _TOKEN] = None
    advertise: Annotated[str | None, _TOKEN] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry(SectionEntry):
    """One of ``queues`` of a computing element."""

    noun: ClassVar[str] = "queue"
    terse: ClassVar[bool] = True

    name: Annotated[str, name()]
    cpu_time_s: Annotated[int, WholeNumberType(least=1)]
    platforms: Annotated[tuple[str, ...], SetOf(name())] = ()
    processors: Annotated[int, WholeNumberType(least=1)] = 1
    memory_mb: Annotated[int, WholeNumberType()] = 0
    wall_time_s: Annotated[int | None, Nothing(WholeNumberType(least=1))] = None
    gpus: Annotated[int, WholeNumberType()] = 0
    disk_mb: Annotated[int, WholeNumberType()] = 0
    container: Annotated[bool, FlagType()] = False
    job_types: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    tags: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    required_tags: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    max_waiting_pilots: Annotated[int, WholeNumberType()] = 10
    max_pilots: Annotated[int, WholeNumberType()] = 100
    stalled_s: Annotated[int | None, _STALL_WINDOW] = None
    stalled_cpu_fraction: Annotated[float | None, Nothing(NumberType(most=1.0))] = None
    max_stalled_s: Annotated[int | None, _STALL_WINDOW] = None
    status: Annotated[StatusEntry, RecordOf(StatusEntry)] = ACTIVE
    parameters: Annotated[Free, Parameters()] = field(default_factory=dict)
    vo_parameters: Annotated[Free, ParametersByVO()] = field(default_factory=dict)

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

    name: Annotated[str, name()]
    #: Empty: left out, which is refused for a new CE; a simulation ignores it.
    type: Annotated[str, ChoiceType(settings.WMS_BACKENDS)] = ""
    middleware: Annotated[str, TextType(128, empty=True)] = ""
    options: Annotated[Free, OptionsType()] = field(default_factory=dict)
    pilot_types: Annotated[tuple[str, ...], SetOf(ChoiceType(PilotType))] = ()
    identity: Annotated[str, ChoiceType(PayloadIdentity)] = PayloadIdentity.NONE
    status: Annotated[StatusEntry, RecordOf(StatusEntry)] = ACTIVE
    parameters: Annotated[Free, Parameters()] = field(default_factory=dict)
    vo_parameters: Annotated[Free, ParametersByVO()] = field(default_factory=dict)
    queues: Annotated[tuple[QueueEntry, ...], ListOf(QueueEntry)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteEntry(SectionEntry):
    """One of ``sites``."""

    noun: ClassVar[str] = "site"
    secrets: ClassVar[frozenset[str]] = frozenset({"tokens"})
    children: ClassVar[str] = "ces"

    name: Annotated[str, name()]
    vos: Annotated[tuple[str, ...], SetOf(NameOf("vo"))] = ()
    status: Annotated[StatusEntry, RecordOf(StatusEntry)] = ACTIVE
    parameters: Annotated[Free, Parameters()] = field(default_factory=dict)
    vo_parameters: Annotated[Free, ParametersByVO()] = field(default_factory=dict)
    containers_provide_platforms: Annotated[bool, FlagType()] = False
    throttle: Annotated[ThrottleEntry | None, Nothing(RecordOf(ThrottleEntry))] = None
    storage_elements: Annotated[tuple[str, ...], SetOf(NameOf("storage element"))] = ()
    tokens: Annotated[TokensEntry | None, Nothing(RecordOf(TokensEntry))] = None
    ces: Annotated[tuple[CEEntry, ...], ListOf(CEEntry)] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorEntry(SectionEntry):
    """One of ``directors``."""

    noun: ClassVar[str] = "director"

    name: Annotated[str, name(64)]
    kind: Annotated[str, ChoiceType(DirectorKind)] = DirectorKind.SITE
    sites: Annotated[tuple[str, ...], SetOf(NameOf("site"))] = ()
    job_types: Annotated[tuple[str, ...], SetOf(_WORD)] = ()
    pilots_per_cycle: Annotated[int, WholeNumberType(least=1)] = 40
    private_fraction: Annotated[float, NumberType(most=1.0)] = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScopeEntry(SectionEntry):
    """``scope`` of a limit."""

    terse: ClassVar[bool] = True

    vo: Annotated[str | None, NameOf("vo")] = None
    site: Annotated[str | None, NameOf("site")] = None
    ce: Annotated[str | None, NameOf("ce")] = None
    group: Annotated[str | None, NameOf("group")] = None
    user: Annotated[str | None, NameOf("user")] = None
    job_type: Annotated[str | None, _WORD] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitEntry(SectionEntry):
    """One of ``limits``."""

    noun: ClassVar[str] = "limit"
    terse: ClassVar[bool] = True
    named_by: ClassVar[str] = ""

    scope: Annotated[ScopeEntry, RecordOf(ScopeEntry)]
    running: Annotated[int | None, _LIMIT] = None
    waiting: Annotated[int | None, _LIMIT] = None
    cpu_s_per_day: Annotated[int | None, Nothing(WholeNumberType(most=MAX_BIG_INTEGER))] = None
    delay_s: Annotated[float | None, Nothing(NumberType(most=LONGEST_DELAY_S))] = None
    burst: Annotated[int | None, Nothing(WholeNumberType(least=1, most=LARGEST_BURST))] = None

    def mistakes(self) -> Iterator[tuple[str, str]]:
        """Yield (key, sentence) for keys that contradict one another."""
        if self.scope == ScopeEntry():
            yield "scope", "name at least one of vo, site, ce, group, user and job_type"
        if {self.running, self.waiting, self.cpu_s_per_day, self.delay_s} == {None}:
            yield "", "limits nothing; give running, waiting, cpu_s_per_day or delay_s"
        if self.burst is not None and self.delay_s is None:
            yield "burst", "belongs to delay_s, which is missing"
        if self.waiting is not None and (self.scope.site is not None or self.scope.ce is not None):
            yield "waiting", "a job that waits is at no site and no ce; name neither, or limit running"


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration(SectionEntry):
    """The whole file."""

    vos: Annotated[tuple[VOEntry, ...], ListOf(VOEntry)] = ()
    groups: Annotated[tuple[GroupEntry, ...], ListOf(GroupEntry)] = ()
    users: Annotated[tuple[UserEntry, ...], ListOf(UserEntry)] = ()
    requirement_definitions: Annotated[tuple[DefinitionEntry, ...], ListOf(DefinitionEntry)] = ()
    platforms: Annotated[tuple[PlatformEntry, ...], NamedLists(PlatformEntry)] = ()
    storage_elements: Annotated[tuple[StorageElementEntry, ...], ListOf(StorageElementEntry)] = ()
    sites: Annotated[tuple[SiteEntry, ...], ListOf(SiteEntry)] = ()
    directors: Annotated[tuple[DirectorEntry, ...], ListOf(DirectorEntry)] = ()
    limits: Annotated[tuple[LimitEntry, ...], ListOf(LimitEntry)] = ()
