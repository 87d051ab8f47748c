"""Sites for pages: how many jobs and pilots are there, and how many jobs succeeded lately.

All reads are bounded: counters of jobs, living pilots, and the runs that ended last. What is said of others' jobs and
pilots are sums of the reader's VOs, which are read for all readers together.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from django.db.models import Case, CharField, Count, F, Q, Sum, Value, When

from matching.models import Match
from pilots.models import Pilot
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Site
from resources.queries.throttles import ThrottleStanding, standings
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentSiteJobCount, Job
from wms.jobs.models.jobs import LEASED_STATUSES
from wms.jobs.queries.filtering import JobFilters
from wms.jobs.queries.found_jobs import Extent, find

#: Age of the runs that count as recent.
RECENT: Final = timedelta(days=1)
#: Ended runs of all users that are read: the last.
MOST_RUNS: Final = 5000
#: Ended jobs of the reader that are read: the newest.
MOST_OWN: Final = 1000
ENDED_BY_ITSELF: Final = (JobStatus.DONE, JobStatus.FAILED)
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentSuccess:
    """Jobs that ended Done and Failed within RECENT, as far as they were read."""

    done: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteStatus:
    """The status of one site: its queues, pilots and jobs."""

    ces: int = 0
    queues: int = 0
    #: {state: number of queues that are in it, or whose computing element is}.
    closed_queues: Mapping[ResourceState, int] = field(default_factory=dict)
    #: Jobs that pilots hold: of the reader, and of all users of the reader's VOs.
    own_leased: int = 0
    all_leased: int = 0
    #: Living pilots of the reader's VOs.
    pilots: int = 0
    #: Of those, {status: number} of the pilots that the reader may see.
    visible_pilots: Mapping[str, int] = field(default_factory=dict)
    own: RecentSuccess = RecentSuccess()
    all: RecentSuccess = RecentSuccess()
    #: None: the site has no throttle.
    throttle: ThrottleStanding | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSum:
    """Numbers of jobs and pilots at a site, of all users of some VOs."""

    #: Jobs that pilots hold.
    leased: int = 0
    #: Living pilots, by status.
    pilots: Mapping[str, int] = field(default_factory=dict)
    recent: RecentSuccess = RecentSuccess()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SiteSums:
    """Sums over all users, by site and VO, from which those for each reader are added up; equal to itself only."""

    leased: Mapping[tuple[int, int], int]
    #: The third of the key is the status.
    pilots: Mapping[tuple[int, int, str], int]
    #: The third of the key is Done or Failed.
    ended: Mapping[tuple[int, int, str], int]

    def of_vos(self, vo_ids: Collection[int] | None) -> Mapping[int, SiteSum]:
        """Return the sums by site, of some VOs or (None) all; sites where nothing happens are missing."""
        leased, pilots, ended = Counter[int](), defaultdict[int, Counter[str]](Counter), Counter[tuple[int, str]]()
        for (site_id, vo_id), number in self.leased.items():
            if vo_ids is None or vo_id in vo_ids:
                leased[site_id] += number
        for (site_id, vo_id, status), number in self.pilots.items():
            if vo_ids is None or vo_id in vo_ids:
                pilots[site_id][status] += number
        for (site_id, vo_id, status), number in self.ended.items():
            if vo_ids is None or vo_id in vo_ids:
                ended[site_id, status] += number
        return {
            pk: SiteSum(
                leased=leased[pk],
                pilots=dict(pilots[pk]),
                recent=RecentSuccess(done=ended[pk, JobStatus.DONE], failed=ended[pk, JobStatus.FAILED]),
            )
            for pk in sorted({*leased, *pilots, *(site_id for site_id, _ in ended)})
        }


def site_sums(*, now: datetime) -> SiteSums:
    """Return the present sums of all sites and VOs; *now* is by the database's clock."""
    # Uses index: job_count_of_site
    site_ids = list(Site.objects.values_list("pk", flat=True))
    leased = CurrentSiteJobCount.objects.filter(site__in=site_ids, status__one_of=LEASED_STATUSES)
    jobs = leased.values_list("site", "vo").annotate(sum=Sum("jobs")).filter(sum__gt=0).order_by("site", "vo")
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None)
    of_pilots = ("queue__ce__site", "vo", "status")
    pilots = living.values_list(*of_pilots).annotate(pilots=Count("pk")).order_by(*of_pilots)
    # Uses index: match_ended
    latest = Match.objects.filter(ended_at__gt=now - RECENT).order_by("-ended_at").values("job_id")[:MOST_RUNS]
    ended = Job.objects.filter(pk__in=latest, site__isnull=False, status__in=ENDED_BY_ITSELF)
    of_ended = ("site", "vo", "status")
    runs = ended.values_list(*of_ended).annotate(jobs=Count("pk")).order_by(*of_ended)
    return SiteSums(
        leased={(site, vo): number for site, vo, number in jobs},
        pilots={(site, vo, status): number for site, vo, status, number in pilots},
        ended={(site, vo, status): number for site, vo, status, number in runs},
    )


def statuses_of(
    sites: Sequence[Site], *, sums: Mapping[int, SiteSum], own_ended: JobFilters, by: User, now: datetime
) -> Mapping[int, SiteStatus]:
    """Return the status of each of these sites, by primary key, with the same number of statements for any number.

    Args:
        sites: those that the reader may see.
        sums: by site, of the reader's VOs.
        own_ended: filters of the reader's own jobs that are Done or Failed.
        by: the reader.
        now: by the database's clock.
    """
    ids = [site.pk for site in sites]
    # Uses index: site_job_count_is_one_row
    leased = CurrentSiteJobCount.objects.filter(owner=by, site__in=ids, status__one_of=LEASED_STATUSES)
    own_leased = dict(leased.values_list("site").annotate(sum=Sum("jobs")).order_by("site"))
    queues, own = _queues(ids, now=now), _own(own_ended, by=by, now=now)
    visible_pilots, throttles = _visible_pilots(ids, by=by), standings(sites, now=now)
    return {
        pk: SiteStatus(
            ces=queues[pk].ces,
            queues=queues[pk].queues,
            closed_queues=queues[pk].closed,
            own_leased=own_leased.get(pk, 0),
            all_leased=sums[pk].leased if pk in sums else 0,
            pilots=sum(sums[pk].pilots.values()) if pk in sums else 0,
            visible_pilots=visible_pilots.get(pk, _NONE),
            own=own.get(pk, RecentSuccess()),
            all=sums[pk].recent if pk in sums else RecentSuccess(),
            throttle=throttles.get(pk),
        )
        for pk in ids
    }


@dataclass(slots=True, kw_only=True)
class _Queues:
    """Numbers of computing elements and queues of a site."""

    ces: int = 0
    queues: int = 0
    #: {state: number of queues that are in it, or whose computing element is}.
    closed: Counter[ResourceState] = field(default_factory=Counter)


def _queues(site_ids: Collection[int], *, now: datetime) -> Mapping[int, _Queues]:
    numbers: defaultdict[int, _Queues] = defaultdict(_Queues)
    levels = {f"{level}_state": _state_at(now, path) for level, path in (("ce", ""), ("queue", "queues__"))}
    ces = ComputingElement.objects.filter(site__in=site_ids).annotate(**levels).values_list("site", *levels)
    rows = ces.annotate(queue_number=Count("queues")).order_by("site")
    for site_id, ce_state, queue_state, queues in rows:
        numbers[site_id].queues += queues
        closed = queue_state if ce_state == ResourceState.ACTIVE else ce_state
        if queues and closed != ResourceState.ACTIVE:
            numbers[site_id].closed[ResourceState(closed)] += queues
    sizes = ComputingElement.objects.filter(site__in=site_ids).values_list("site").annotate(ces=Count("pk"))
    for site_id, ce_number in sizes.order_by("site"):
        numbers[site_id].ces = ce_number
    return numbers


def _state_at(now: datetime, path: str) -> Case:
    """Return the state in force of a level: a ban or a drain ends at its ``state_until``."""
    is_over = Q(**{f"{path}state_until__lte": now})
    return Case(When(is_over, then=Value(ResourceState.ACTIVE)), default=F(f"{path}state"), output_field=CharField())


def _visible_pilots(site_ids: Collection[int], *, by: User) -> Mapping[int, Mapping[str, int]]:
    """Return the living pilots at each site that the reader may see, by status."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None, queue__ce__site__in=site_ids)
    rows = living.visible_to(by).values_list("queue__ce__site", "status").annotate(pilots=Count("pk"))
    visible: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for site_id, status, number in rows.order_by("queue__ce__site", "status"):
        visible[site_id][status] = number
    return visible


def _own(own_ended: JobFilters, *, by: User, now: datetime) -> Mapping[int, RecentSuccess]:
    newest = find(own_ended, Extent(at_most=MOST_OWN), by=by).values_list("site_id", "status", "ended_at")
    return _counted(
        (site_id, status) for site_id, status, ended_at in newest if ended_at is not None and ended_at > now - RECENT
    )


def _counted(jobs: Iterable[tuple[int | None, str]]) -> Mapping[int, RecentSuccess]:
    counts = Counter(jobs)
    return {
        site_id: RecentSuccess(done=counts[site_id, JobStatus.DONE], failed=counts[site_id, JobStatus.FAILED])
        for site_id in {site_id for site_id, _ in counts}
        if site_id is not None
    }
