"""Pilots, black holes and leases."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from matching.models import Match
from pilots.domain.pilot import ENDED, PilotStatus
from pilots.models import BlackHole, Pilot
from pilots.services.tokens import issue_pilot_token
from resources.models import ComputingElement, Queue, Site
from taskqueues.domain.definition import cpu_segment_s
from taskqueues.services.queueing import rounding
from tests.factories.accounts import make_vo
from tests.factories.jobs import make_job
from tests.factories.names import NOW
from tests.factories.resources import make_site
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job


def make_pilot(
    *,
    vo: VO | None = None,
    group: Group | None = None,
    owner: User | None = None,
    queue: Queue | None = None,
    site: Site | None = None,
    ce: ComputingElement | None = None,
    status: PilotStatus = PilotStatus.RUNNING,
) -> Pilot:
    """Return a pilot; with *group* a private one, without *queue* one started by hand, for *site* and *ce* if given."""
    return Pilot.objects.create(
        vo=vo or (group.vo if group else make_vo()),
        group=group,
        owner=owner,
        queue=queue,
        status=status,
        **({} if site is None else {"site": site, "ce": ce}),
        submitted_at=NOW,
        ended_at=NOW if status in ENDED else None,
    )


def make_black_hole(
    *,
    site: Site | None = None,
    host_name: str = "node1",
    found_at: datetime = NOW,
    pause: timedelta = timedelta(hours=1),
) -> BlackHole:
    """Return a black hole, a host that gets no jobs for a while; its pilots are not marked."""
    return BlackHole.objects.create(
        site=site or make_site(),
        host_name=host_name,
        found_at=found_at,
        until=found_at + pause,
        fetched=12,
        failed=11,
        reason="11 of the 12 jobs that ended here failed",
    )


def make_match(
    *,
    job: Job | None = None,
    pilot: Pilot | None = None,
    leased_at: datetime = NOW,
    ended_at: datetime | None = None,
) -> Match:
    """Return a lease of *job*; the default job's status is not changed to a leased one."""
    job = job or make_job(status=JobStatus.RUNNING)
    return Match.objects.create(
        job=job,
        pilot=pilot or make_pilot(),
        request_id=uuid4(),
        cpu_segment_s=cpu_segment_s(job.description["cpu_time_s"], segments_s=rounding().cpu_segments_s),
        leased_at=leased_at,
        expires_at=leased_at + timedelta(seconds=300),
        ended_at=ended_at,
    )


def make_pilot_token(pilot: Pilot | None = None, *, lifetime: timedelta = timedelta(hours=1)) -> str:
    """Return a token of *pilot*, valid by the real clock, as the API reads it."""
    return issue_pilot_token(pilot or make_pilot(), now=datetime.now(tz=UTC), lifetime=lifetime).token
