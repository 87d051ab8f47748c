"""Sites for pages: how many jobs and pilots are there, and how many jobs succeeded lately.

All reads are bounded: counters of jobs, living pilots, and the runs that ended last. What is said of others' jobs and
pilots are sums of the reader's VOs.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from django.db.models import Count, Q, Sum

from matching.models import Match
from pilots.models import Pilot
from resources.models import ComputingElement, Site
from resources.queries.throttles import ThrottleStanding, standings
from wms.accounts.models import VO, User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import LEASED_STATUSES, CurrentSiteJobCount, Job
from wms.jobs.queries.filtering import JobFilters
from wms.jobs.queries.found_jobs import Extent, find

#: Age of the runs that count as recent.
RECENT: Final = timedelta(days=1)
#: Ended runs of all users that are read: the last.
MOST_RUNS: Final = 5000
#: Ended jobs of the reader that are read: the newest.
MOST_OWN: Final = 1000
_ENDED_BY_ITSELF: Final = (JobStatus.DONE, JobStatus.FAILED)
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


def statuses_of(sites: Sequence[Site], *, own_ended: JobFilters, by: User, now: datetime) -> Mapping[int, SiteStatus]:
    """Return the status of each of these sites, by primary key, with the same number of statements for any number.

    Args:
        sites: those that the reader may see.
        own_ended: filters of the reader's own jobs that are Done or Failed.
        by: the reader.
        now: by the database's clock.
    """
    ids = [site.pk for site in sites]
    vo_ids = list(VO.objects.visible_to(by).values_list("pk", flat=True))
    # Uses index: job_count_of_site
    leased = CurrentSiteJobCount.objects.filter(site__in=ids, vo__in=vo_ids, status__one_of=LEASED_STATUSES)
    counts = leased.values_list("site").annotate(all=Sum("jobs"), own=Sum("jobs", filter=Q(owner=by))).order_by("site")
    jobs = {site_id: (own or 0, all_ or 0) for site_id, all_, own in counts}
    rows = ComputingElement.objects.filter(site__in=ids).values_list("site")
    parts = rows.annotate(ce_number=Count("pk", distinct=True), queue_number=Count("queues")).order_by("site")
    sizes = {site_id: (ces, queues) for site_id, ces, queues in parts}
    pilots, visible_pilots = _pilots(ids, vo_ids=vo_ids, by=by)
    own, everybodys = _own(own_ended, by=by, now=now), _of_all(vo_ids=vo_ids, now=now)
    throttles = standings(sites, now=now)
    return {
        pk: SiteStatus(
            ces=sizes.get(pk, (0, 0))[0],
            queues=sizes.get(pk, (0, 0))[1],
            own_leased=jobs.get(pk, (0, 0))[0],
            all_leased=jobs.get(pk, (0, 0))[1],
            pilots=pilots.get(pk, 0),
            visible_pilots=visible_pilots.get(pk, _NONE),
            own=own.get(pk, RecentSuccess()),
            all=everybodys.get(pk, RecentSuccess()),
            throttle=throttles.get(pk),
        )
        for pk in ids
    }


def _pilots(
    site_ids: Collection[int], *, vo_ids: Collection[int], by: User
) -> tuple[Mapping[int, int], Mapping[int, Mapping[str, int]]]:
    """Return the number of living pilots at each site, and of those that the reader may see by status."""
    # Uses index: pilot_alive_at_queue
    living = Pilot.objects.filter(queue__isnull=False, ended_at=None, vo__in=vo_ids, queue__ce__site__in=site_ids)
    of_site = dict(living.values_list("queue__ce__site").annotate(pilots=Count("pk")).order_by("queue__ce__site"))
    visible: defaultdict[int, dict[str, int]] = defaultdict(dict)
    rows = living.visible_to(by).values_list("queue__ce__site", "status").annotate(pilots=Count("pk"))
    for site_id, status, number in rows.order_by("queue__ce__site", "status"):
        visible[site_id][status] = number
    return of_site, visible


def _own(own_ended: JobFilters, *, by: User, now: datetime) -> Mapping[int, RecentSuccess]:
    newest = find(own_ended, Extent(at_most=MOST_OWN), by=by).values_list("site_id", "status", "ended_at")
    return _counted(
        (site_id, status) for site_id, status, ended_at in newest if ended_at is not None and ended_at > now - RECENT
    )


def _of_all(*, vo_ids: Collection[int], now: datetime) -> Mapping[int, RecentSuccess]:
    # Uses index: match_ended
    latest = Match.objects.filter(ended_at__gt=now - RECENT).order_by("-ended_at").values("job_id")[:MOST_RUNS]
    ended = Job.objects.filter(pk__in=latest, vo__in=vo_ids, status__in=_ENDED_BY_ITSELF)
    return _counted(ended.values_list("site_id", "status"))


def _counted(jobs: Iterable[tuple[int | None, str]]) -> Mapping[int, RecentSuccess]:
    counts = Counter(jobs)
    return {
        site_id: RecentSuccess(done=counts[site_id, JobStatus.DONE], failed=counts[site_id, JobStatus.FAILED])
        for site_id in {site_id for site_id, _ in counts}
        if site_id is not None
    }
