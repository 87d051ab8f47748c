"""The findings of an explanation: why jobs of a task queue wait, as data. ``matching.domain.sentences`` words them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from matching.domain.facts import WaitFact
from matching.domain.headline import Cause, Headline
from resources.domain.eligibility import Supply
from resources.domain.parameters import Value, canonical_name
from resources.domain.requirements import Kinds, Units, canonical, meets
from taskqueues.domain.definition import QueueDefinition
from taskqueues.domain.offer import ResourceOffer
from wms.jobs.domain.time_left import TimeRange

#: Condition on the computing element by which directors choose where to send pilots; the match ignores it.
MIDDLEWARE: Final = "grid_middlewares"
#: Condition of queues that take no jobs at present.
CLOSED: Final = "closed"

# ---- jobs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredOf:
    """The resource requirements of a job (RFC 7), compared with the properties of its VO's queues."""

    #: As written by the owner.
    stated: Mapping[str, object]
    kinds: Kinds
    units: Units
    supply: Supply

    @property
    def required(self) -> Mapping[str, Value]:
        """Return {canonical name: value}."""
        return canonical(self.stated)

    @property
    def spelled(self) -> Mapping[str, str]:
        """Return {canonical name: name as the owner wrote it}."""
        return {canonical_name(name): name for name in self.stated}

    def unmet_at(self, queue_id: int) -> tuple[str, ...]:
        """Return the requirements (canonical names) that one queue does not meet."""
        required = self.required
        offered = self.supply.offered(queue_id, required)
        return tuple(name for name, value in required.items() if not meets(name, value, offered.get(name), self.kinds))


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRequirements:
    """The requirements of jobs of one task queue: its definition, which the match compares, and their description."""

    #: 0: not registered yet.
    task_queue_id: int = 0
    definition: QueueDefinition
    #: Of one of the jobs.
    description: Mapping[str, Any]
    #: Names.
    owner: str
    group: str
    vo: str
    #: Whether the owner reads the explanation.
    is_readers: bool = False
    #: Whether the owner is not suspended, and is a member of the group.
    is_active: bool = True
    is_member: bool = True
    #: Whether the group has a share.
    has_share: bool = True
    #: Its requirements on resources, compared with the queues; None: it has none, or names submit pools itself.
    resources: RequiredOf | None = None


# ---- queues ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionCount:
    """The result of one condition, by itself, for the queues that serve the job's VO."""

    name: str
    passed_queues: int
    failed_queues: int
    #: One offer of each kind that was compared.
    offers: Sequence[ResourceOffer] = ()
    #: Of the condition on sites: the queues that accept no jobs at present.
    closed_queues: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedQueue:
    """One queue and all causes against the job there; without any, a pilot there may get it."""

    site: str
    ce: str
    queue: str
    queue_id: int
    offer: ResourceOffer
    causes: Sequence[Cause]
    #: Configured, and those that its nodes reported recently.
    platforms: Sequence[str] = ()
    nodes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """The room that a limit or a throttle leaves for the jobs of a task queue."""

    #: The scope of the limit, or the site of the throttle.
    name: str
    words: str
    is_full: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRank:
    """The rank of a task queue among those of its VO in which jobs wait."""

    #: 1: none has a higher priority; None: it is not drawn, because no queue would take its jobs.
    rank: int | None = None
    #: Whether it has nearly all of the priorities that are drawn with its own, and no longer jobs come before.
    is_next: bool = False
    #: Its fraction of the priorities of its CPU segment, 0 to 1; 0 if the rank is None.
    share: float = 0.0
    #: Number of drawable task queues with a higher CPU segment.
    longer: int = 0
    #: Whether some pilots of the VO draw from all CPU segments.
    any_segment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PilotsThere:
    """The pilots at the queues that a task queue fits, and reasons for missing ones.

    Args:
        running: pilots that have started and may take its jobs; if there are some, the rest is left out.
        idle: those of them without a job.
        own_jobs: jobs of the owner that run at these queues.
        coming: pilots that wait in their batch systems.
        no_pilots: why none are sent now, for each queue; empty: some exist, or may be sent.
        remarks: further observations.
    """

    running: int = 0
    idle: int = 0
    own_jobs: int = 0
    coming: int = 0
    no_pilots: Sequence[Cause] = ()
    remarks: Sequence[WaitFact] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """The findings about a task queue and the queues that serve its VO."""

    needs: WaitingRequirements
    #: The best explanation why it waits.
    headline: Headline
    #: In the order of the match.
    conditions: Sequence[ConditionCount]
    queues: int
    standing: QueueRank = QueueRank()
    #: At the queues that fit, if any.
    pilots: PilotsThere = PilotsThere()
    #: About how many jobs wait in the task queue.
    waiting: int = 0
    #: The time until it starts, or until the first and the last of a selection do; None: it cannot be said.
    starts: Sequence[TimeRange | None] = ()
    #: Places that come last until a time, because they gave the job back; None: none.
    goes_elsewhere: WaitFact | None = None


# ---- described jobs, before they are submitted -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """One condition that excludes queues."""

    #: Name of the condition of the match, MIDDLEWARE, or CLOSED.
    condition: str
    queues: int
    #: Sites of which every queue fails the condition, sorted.
    sites: Sequence[str]
    #: Its requirement, and the offers of the queues; or why they are closed or of another middleware.
    why: str

    @property
    def detail(self) -> str:
        """Return the requirement and the offers; empty: the condition is none of the match."""
        return "" if self.condition in {MIDDLEWARE, CLOSED} else self.why


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The queues that a described job fits by the present configuration; throttles and limits are left out."""

    #: Queues at the sites that serve the VO.
    queues: int
    #: Those that would take the job.
    fitting: int
    #: Those that it fits, but that take no jobs at present.
    closed: int
    #: Sites with queues that would take the job, sorted.
    sites: Sequence[str]
    exclusions: Sequence[Exclusion]
    #: Why no pilot gets the job anywhere; empty: some may.
    never: str


class FitOutcome(Enum):
    """The result of the comparison of jobs with the queues; those that need attention first."""

    NONE = auto()
    CLOSED = auto()
    CHECKING = auto()
    FITS = auto()

    @classmethod
    def of(cls, fit: Fit | None) -> "FitOutcome":
        """Return the outcome; None: no site where the jobs may run holds their input data."""
        if fit is None:
            return cls.CHECKING
        if fit.fitting:
            return cls.FITS
        return cls.CLOSED if fit.closed else cls.NONE


# ---- advice ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """The effect of one change of a job's requirements on the queues that it fits."""

    change: WaitFact
    #: Queues that the changed job fits and the present one does not.
    gained: int
    #: Those of them that accept no jobs at present.
    closed: int = 0
    #: Queues that only the present job fits.
    lost: int = 0
    #: Sites of the gained queues, sorted.
    sites: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Changes of a job that would let it fit more queues, each by itself, the most helpful first."""

    effects: Sequence[Effect] = ()
    #: Whether the job fits some queue as it is.
    fits_some: bool = False
    #: If no single change is enough: the queue that lacks least, and all that it needs together.
    nearest: str = ""
    together: Sequence[WaitFact] = ()


# ---- the whole -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedData:
    """The input data of a Checking job."""

    files: Sequence[str]
    #: Without a registered replica.
    missing: Sequence[str] = ()
    #: Sites that hold all of them.
    sites: Sequence[str] = ()
    #: Whether its own sites and banned_sites let it run at one of these.
    may_run: bool = True

    @property
    def is_there(self) -> bool:
        """Return whether a site where the job may run holds all of its input data."""
        return bool(self.sites) and not self.missing and self.may_run


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The reason why a job waits, or the state of a job that does not wait."""

    status: str
    minor_status: str = ""
    #: Of its match; empty: none.
    site: str = ""
    #: Of a Checking job.
    checked: CheckedData | None = None
    #: The full quota of waiting jobs of a Checking job; empty: none.
    quota: str = ""
    #: Of a waiting job.
    findings: Findings | None = None
    queues: Sequence[ExplainedQueue] = ()
    #: Limits and throttles that hold it back where it would fit otherwise.
    closings: Sequence[Cause] = ()
    advice: Advice = Advice()
    #: Limits and throttles that apply to it where it fits, or would fit otherwise, full or not.
    rooms: Sequence[Room] = ()
    #: Warnings that follow from its description alone.
    description_warnings: Sequence[str] = ()
    #: Why no pilot gets it in the present configuration, or is sent for it; None: one may.
    unmatched: Findings | None = None

    @property
    def standing(self) -> QueueRank | None:
        """Return the rank of its task queue; None: it does not wait."""
        return None if self.findings is None else self.findings.standing

    @property
    def task_queue_id(self) -> int | None:
        """Return the primary key of its task queue; None: it is in none."""
        return None if self.findings is None else self.findings.needs.task_queue_id
