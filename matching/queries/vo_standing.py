"""The pause, limits, throttles and bans that hold the jobs of a VO back now, and the reasons why its jobs wait."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from django.utils.text import capfirst

from matching.queries.unmatched_counts import WaitReason, waiting_by_reason
from resources.domain.enums import ResourceState
from resources.models import Site
from resources.queries.places import ClosedPlace, closed_places
from resources.queries.throttles import standings
from taskqueues.queries import LimitStanding, full_in_words, limit_standings
from wms.accounts.models import VO


@dataclass(frozen=True, slots=True, kw_only=True)
class VOStanding:
    """One VO: sentences on what stops its jobs, those that stop most first, and the numbers of those that wait."""

    vo: VO
    holds: Sequence[str]
    #: Estimates, as those of ``waiting_by_reason``; without those that are 0.
    waiting: Mapping[WaitReason, int]


def standings_of_vos(vo_ids: Collection[int], *, now: datetime) -> list[VOStanding]:
    """Return the standing of each of these VOs, by name.

    Args:
        vo_ids: of the VOs.
        now: the database's clock.
    """
    numbers = waiting_by_reason(now)
    limits, places = limit_standings(), closed_places()
    return [
        VOStanding(
            vo=vo,
            holds=[*_holds(vo, limits, now=now), *_closed(vo, places, now=now)],
            waiting={reason: number for reason in WaitReason if (number := numbers.get((vo.pk, reason), 0))},
        )
        for vo in VO.objects.filter(pk__in=vo_ids).order_by("name")
    ]


def _holds(vo: VO, limits: Sequence[LimitStanding], *, now: datetime) -> Iterator[str]:
    if why := vo.why_paused(now):
        yield f"{capfirst(why)}."
    for standing in limits:
        # A delay passes by itself.
        lasting = replace(standing.bounds, delay_s=None)
        if lasting.room(now=now) == 0 and vo.pk in standing.limit.concerned_vo_ids():
            yield f"{capfirst(full_in_words(replace(standing, bounds=lasting), now=now))}."
    sites = [site for site in Site.objects.serving(vo).order_by("name") if site.state_at(now) is ResourceState.ACTIVE]
    by_site = standings(sites, now=now)
    for site in sites:
        if site.pk in by_site and not by_site[site.pk].accepting:
            yield f"The throttle of {site} is closed. {by_site[site.pk].why_closed}"


def _closed(vo: VO, places: Sequence[ClosedPlace], *, now: datetime) -> Iterator[str]:
    for place in places:
        if place.is_closed(now=now) and place.serves_one_of({vo.pk}):
            until = f" until {place.until:%Y-%m-%d %H:%M %Z}" if place.until else ""
            reason = f": {place.reason.rstrip('.')}" if place.reason else ""
            yield f"{' / '.join(place.names)} is {place.state}{until}{reason}."
