"""Throttles and limits in force now, including counts of the server (docs/architecture.md, Throttles and limits)."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from hashlib import sha256
from typing import Final

from django.db.models import Sum

from pilots.models import CEHealth
from resources.domain.advertised_load import CUR_MATCHES, CURRENT, GATHERING, SUBMITTING
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.models import Site, ThrottleState
from resources.queries.throttles import throttle_in
from resources.services.throttles import validity_of
from taskqueues.models import TaskQueue
from taskqueues.queries import limits_on_matches, with_counts
from taskqueues.services.restrictions import Closings, closings_of
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.models import CurrentSiteJobCount
from wms.jobs.models.jobs import LEASED_STATUSES

#: Policies whose numbers fall as jobs move on. The others count matches only, from 0 in each cycle.
COUNTING_LEASED_JOBS: Final = frozenset({ThrottlePolicy.LEVEL0, ThrottlePolicy.LEVEL1, ThrottlePolicy.LEVEL2})


def leased_jobs_at(site_ids: Collection[int]) -> Mapping[int, dict[str, int]]:
    """Return the numbers of jobs at each site, by the statuses in the database."""
    # Uses index: job_count_of_site
    rows = CurrentSiteJobCount.objects.filter(site__in=site_ids, status__one_of=LEASED_STATUSES)
    sums = rows.values_list("site", "status").annotate(many=Sum("jobs")).order_by("site", "status")
    jobs = {(site, status): many for site, status, many in sums}
    return {
        site: {
            SUBMITTING: jobs.get((site, JobStatus.MATCHED), 0),
            GATHERING: jobs.get((site, JobStatus.COMPLETING), 0),
            CURRENT: sum(jobs.get((site, status), 0) for status in LEASED),
            CUR_MATCHES: 0,
        }
        for site in site_ids
    }


def is_to_be_counted(site: Site, state: ThrottleState | None, *, now: datetime) -> bool:
    """Return whether the server counts at a throttled site before it refuses for lack of room.

    It counts if the site's advertisement has expired, unless the site is closed in that case. Its own counts it
    repeats, because jobs move on.
    """
    if state is None or state.expires_at <= now:
        return site.throttle_when_expired == WhenExpired.COUNT
    is_full = state.room is not None and state.matched >= state.room
    return is_full and state.advertised_at is None and site.throttle_policy in COUNTING_LEASED_JOBS


def as_counted(site: Site, numbers: Mapping[str, int], *, now: datetime) -> ThrottleState:
    """Return an unsaved state of a throttle with these counts."""
    state = ThrottleState(site=site, version=0, advertised=dict(numbers), matched=0, measured_at=now)
    state.expires_at = now + validity_of(site, is_advertised=False)
    state.room = throttle_in(site, state).room
    return state


def closings_now(sites: Iterable[Site], *, now: datetime, task_queues: Iterable[TaskQueue]) -> Closings:
    """Return what is closed at these sites; counts that a match would make first are made here.

    Args:
        now: the database's clock.
        task_queues: as of ``Closings``.
    """
    closings = closings_of(sites, now=now, task_queues=task_queues)
    to_count = [site for site, state in closings.sites.values() if is_to_be_counted(site, state, now=now)]
    if not to_count:
        return closings
    numbers = leased_jobs_at([site.pk for site in to_count])
    counted = {site.pk: (site, as_counted(site, numbers[site.pk], now=now)) for site in to_count}
    return replace(closings, sites={**closings.sites, **counted})


def supply_digest(*, now: datetime) -> str:
    """Return a text that is another one whenever a limit, a throttle or a computing element has other numbers.

    Three statements, which read as many rows as there are of these.

    Args:
        now: by the database's clock; what is advertised expires.
    """
    counted = [vars(limit) for limit in with_counts(limits_on_matches())]
    throttles = ThrottleState.objects.order_by("pk").values_list("pk", "version", "matched", "expires_at", "room")
    health = CEHealth.objects.order_by("pk").values_list("pk", "failures", "trouble", "free_slots", "send_after")
    numbers = (
        [tuple(limit[name] for name in ("id", "held", "used_s", "free_at")) for limit in counted],
        # Without a room an expression decides, which may depend on the time.
        [
            (*throttle, expires_at <= now, room if room is not None else now.replace(second=0, microsecond=0))
            for *throttle, expires_at, room in throttles
        ],
        [(*of_ce, send_after is not None and send_after > now) for *of_ce, send_after in health],
    )
    return sha256(repr(numbers).encode()).hexdigest()
