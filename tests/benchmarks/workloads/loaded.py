"""The VO, groups, users, sites and pilots of a workload, in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import ComputingElement, Platform, Queue, Site
from tests.benchmarks.workloads.shape import Workload
from wms.accounts.domain import GroupProperty
from wms.accounts.models import VO, Group, Membership, User

#: No job of a workload carries it: a pilot that requires it gets nothing, until a job comes that does.
IDLE_TAG = "Idle"
SETUP = "Production"
OPERATOR = "operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWorkload:
    """The rows of a workload; its indexes are positions in these sequences."""

    workload: Workload
    vo: VO
    groups: Sequence[Group]
    owners: Sequence[User]
    #: Primary keys by site.
    pilots: Mapping[int, Sequence[int]]

    def ce_name(self, site: int) -> str:
        """Return the name of the computing element of a site."""
        return ce_name(self.workload.sites[site])


def make_vo_and_sites(workload: Workload, *, pilots: int, now: datetime) -> LoadedWorkload:
    """Make all rows but the waiting jobs; *pilots* are spread evenly over the sites, at least one each."""
    vo = VO.objects.create(name="community", setup=SETUP, setups=[SETUP])
    groups = Group.objects.bulk_create(
        Group(
            name=group.name,
            vo=vo,
            priority=group.priority,
            # A million jobs may wait, as in a production.
            properties=sorted({GroupProperty.PRODUCTION, *([GroupProperty.JOB_SHARING] if group.shares_jobs else [])}),
        )
        for group in workload.groups
    )
    owners = User.objects.bulk_create(User(username=owner.name, password="!") for owner in workload.owners)
    User.objects.create(username=OPERATOR, password="!", operator=True)
    Membership.objects.bulk_create(
        Membership(user=user, group=groups[owner.group]) for user, owner in zip(owners, workload.owners, strict=True)
    )
    queues = _make_resources(workload)
    of_site = max(1, pilots // len(queues))
    made = Pilot.objects.bulk_create(
        Pilot(vo=vo, queue=queue, status=PilotStatus.RUNNING, submitted_at=now, started_at=now, last_seen_at=now)
        for queue in queues
        for _ in range(of_site)
    )
    keys = [pilot.pk for pilot in made]
    return LoadedWorkload(
        workload=workload,
        vo=vo,
        groups=groups,
        owners=owners,
        pilots={site: keys[site * of_site : (site + 1) * of_site] for site in range(len(queues))},
    )


def _make_resources(workload: Workload) -> list[Queue]:
    """Make each site with one computing element and one queue, whose nodes report platforms of their own."""
    Platform.objects.bulk_create(Platform(name=name, runs=[name]) for name in workload.platforms)
    sites = Site.objects.bulk_create(Site(name=name) for name in workload.sites)
    ces = ComputingElement.objects.bulk_create(ComputingElement(site=site, name=ce_name(site.name)) for site in sites)
    return Queue.objects.bulk_create(
        Queue(
            ce=ce,
            name="grid",
            cpu_time_s=max(workload.offered_cpu_time_s),
            # A benchmark's pilot takes one job after the other and ends none.
            processors=1_000_000,
            memory_mb=4000,
            tags=sorted({*workload.tags, IDLE_TAG}),
        )
        for ce in ces
    )


def ce_name(site: str) -> str:
    """Return the name of the one computing element of a site."""
    return f"ce.{site.lower()}"
