"""What a pilot, or somebody who asks what it would get, has to offer."""

from dataclasses import dataclass

from resources.domain.enums import PilotType
from taskqueues.domain.limits import LimitScope

#: The job types of possible queues that have none in common: no job is of this type.
NO_JOB_TYPE = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer:
    """One slot's worth of resources, resolved against the configuration.

    ``None`` means "not compared" and "ANY" on the wire; an empty tuple means that the resource has none of it.

    Of a pilot whose queue is not known, ``possible_sites``, ``possible_ces`` and ``possible_platforms`` stand in place
    of ``site``, ``ce`` and ``platforms``: jobs must accept every one of them. The other fields that a queue decides
    then have what all possible queues allow (ADR 27).
    """

    vo_id: int
    #: Of a private pilot; a generic one has neither group nor owner.
    group_id: int | None = None
    #: Of a private pilot whose group does not share jobs.
    owner_id: int | None = None
    setup: str
    cpu_time_s: int
    site: str | None
    #: Whether site, CE and queue are active, and the site serves the VO; nothing is given where they are not.
    accepting: bool = True
    ce: str | None
    #: Names of the sites where the slot may be; empty: no such place is known. None: ``site`` says it.
    possible_sites: tuple[str, ...] | None = None
    #: The same of its CE; empty also where a possible place has no CE.
    possible_ces: tuple[str, ...] | None = None
    #: Platforms of jobs that can run here, compatible ones included.
    platforms: tuple[str, ...] | None
    #: The same of each possible queue, those that are alike once; a job must fit each. None: ``platforms`` says it.
    possible_platforms: tuple[tuple[str, ...], ...] | None = None
    submit_pools: tuple[str, ...] | None
    #: Published by some queue of the VO, but not at this place (ADR 34); a task queue that names any does not fit.
    lacking_software: frozenset[str] = frozenset()
    tags: tuple[str, ...] = ()
    required_tags: tuple[str, ...] = ()
    #: Taken; empty: all.
    job_types: tuple[str, ...] = ()
    processors: int = 1
    memory_mb: int = 0
    #: Until the slot ends; None: not limited.
    wall_time_s: int | None = None
    gpus: int = 0
    disk_mb: int = 0
    #: Whether containers can be run.
    container: bool = False
    #: Why the site's throttle is closed for all jobs; empty: it is not.
    throttled: str = ""
    #: Task queues of which the expression of the site's throttle takes no job.
    refused: tuple[int, ...] = ()
    #: The attributes of a job at which that expression looks.
    refused_by: tuple[str, ...] = ()
    #: Limits of this place that are full.
    full_limits: tuple[LimitScope, ...] = ()

    @property
    def pilot_type(self) -> PilotType:
        """Private when bound to a group (PIL §3.1)."""
        return PilotType.GENERIC if self.group_id is None else PilotType.PRIVATE
