"""The offer of a pilot, or an imagined one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from resources.domain.enums import PilotType
from taskqueues.domain.limits import LimitScope
from wms.wire.amounts import DividedAmounts

#: The job type of an offer whose possible queues have no type in common: no job has it.
NO_JOB_TYPE = ""
#: The setup of an offer whose possible queues choose different ones: no job has it.
NO_SETUP = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotOffer(DividedAmounts):
    """The part of an offer that does not depend on the place of the slot."""

    #: Reference-core CPU seconds left, per core.
    cpu_time_s: int
    #: Seconds until the slot ends; None: not limited, or not stated.
    wall_time_s: int | None = None
    #: Whether the slot can run containers.
    container: bool = False
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DowntimeAhead:
    """The next downtime of the place of an offer: only jobs that would end by its begin fit (ADR 108)."""

    begins_at: datetime
    #: Such as "the downtime of site X from 2026-12-01 14:00 UTC on: maintenance".
    words: str
    #: Seconds until its begin, and the reference-core CPU seconds that a core can do until then.
    wall_time_s: int
    cpu_time_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer(SlotOffer):
    """The resources of one slot, resolved against the configuration.

    ``None`` means "not compared" (ANY in REST); an empty tuple means that the resource has none.

    For a pilot whose queue is unknown, ``possible_sites``, ``possible_ces`` and ``possible_platforms`` replace
    ``site``, ``ce`` and ``platforms``: jobs must accept all of them. The other fields that a queue decides have the
    values that all possible queues allow (ADR 27).
    """

    vo_id: int
    #: Of a private pilot; a generic one has neither group nor owner.
    group_id: int | None = None
    #: Of a private pilot whose group does not share jobs.
    owner_id: int | None = None
    #: None: not decided yet, as a director's pilot gets that of the jobs for which it is sent (ADR 83).
    setup: str | None
    site: str | None
    #: Whether site, CE and queue are active and not in downtime, and the site serves the VO; if not, no job is leased.
    accepting: bool = True
    #: None: none is planned.
    downtime: DowntimeAhead | None = None
    ce: str | None
    #: Names of the sites where the slot may be; empty: no such site is known. None: ``site`` is.
    possible_sites: tuple[str, ...] | None = None
    #: The same for its CE; empty also if a possible place has no CE.
    possible_ces: tuple[str, ...] | None = None
    #: Platforms of jobs that can run here, compatible ones included.
    platforms: tuple[str, ...] | None
    #: The same for each possible queue, equal ones once; a job must fit all. None: ``platforms`` is known.
    possible_platforms: tuple[tuple[str, ...], ...] | None = None
    submit_pools: tuple[str, ...] | None
    #: Published by some queue of the VO, but not at this place (ADR 34); a task queue that names one does not fit.
    lacking_software: frozenset[str] = frozenset()
    #: Accepted; empty: all.
    job_types: tuple[str, ...] = ()
    #: The reason why the site's throttle is closed for all jobs; empty: it is not.
    throttled: str = ""
    #: Task queues whose jobs the expression of the site's throttle refuses.
    refused: tuple[int, ...] = ()
    #: The job attributes that the expression uses.
    refused_by: tuple[str, ...] = ()
    #: Limits of this place that are full.
    full_limits: tuple[LimitScope, ...] = ()

    @property
    def pilot_type(self) -> PilotType:
        """Private if bound to a group (PIL §3.1)."""
        return PilotType.GENERIC if self.group_id is None else PilotType.PRIVATE

    @property
    def wall_time_to_downtime_s(self) -> int | None:
        """Seconds until the next downtime; None: none is planned."""
        return None if self.downtime is None else self.downtime.wall_time_s

    @property
    def cpu_time_to_downtime_s(self) -> int | None:
        """Reference-core CPU seconds, per core, until the next downtime; None: none is planned."""
        return None if self.downtime is None else self.downtime.cpu_time_s


#: {amount: the most that a pilot may offer of it, and its open leases may require together}; others are not bounded.
SlotBound: TypeAlias = Mapping[str, int]


def smallest(bounds: Iterable[SlotBound]) -> SlotBound:
    """Return the smallest amounts of *bounds*."""
    together: dict[str, int] = {}
    for bound in bounds:
        together |= {name: min(most, together.get(name, most)) for name, most in bound.items()}
    return together


def exceeded_by(offered: object, bound: SlotBound) -> dict[str, Any]:
    """Return the part of *bound* that *offered*, an object with attributes of these names, exceeds."""
    return {name: most for name, most in bound.items() if getattr(offered, name) > most}
