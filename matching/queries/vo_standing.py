"""What stops the jobs of a VO now, and the reasons why its jobs wait."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Final

from django.db.models import Sum
from django.utils.text import capfirst

from matching.queries.unmatched_counts import WaitReason, waiting_by_reason
from pilots.models import Pilot
from resources.domain.enums import ResourceState
from resources.models import Site
from resources.queries.places import ClosedPlace, closed_places
from resources.queries.throttles import standings
from taskqueues.queries import LimitStanding, full_in_words, limit_standings
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentJobCount
from wms.kernel.names import counted

#: Suspended owners of a VO that are named.
_MOST_OWNERS: Final = 20


class HoldKind(Enum):
    """What stops jobs."""

    PAUSE = auto()
    LIMIT = auto()
    NO_PILOTS = auto()
    SITE = auto()
    OWNER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One thing that stops jobs of a VO."""

    kind: HoldKind
    #: A sentence.
    text: str
    #: The primary key of the limit, the name of the site, or that of the owner; empty: nothing of these.
    what: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VOStanding:
    """One VO: what stops its jobs, first what stops most, and the numbers of those that wait."""

    vo: VO
    holds: Sequence[Hold]
    #: Estimates, as those of ``waiting_by_reason``; without those that are 0.
    waiting: Mapping[WaitReason, int]


def standings_of_vos(vo_ids: Collection[int], *, now: datetime) -> list[VOStanding]:
    """Return the standing of each of these VOs, those that something stops first, then by name.

    Args:
        vo_ids: of the VOs, whose managers see it.
        now: the database's clock.
    """
    numbers = waiting_by_reason(now)
    limits, places = limit_standings(), closed_places()
    found = []
    for vo in VO.objects.filter(pk__in=vo_ids).order_by("name"):
        waiting = {reason: number for reason in WaitReason if (number := numbers.get((vo.pk, reason), 0))}
        holds = [
            *_holds(vo, limits, now=now),
            *_without_pilots(vo, waiting.get(WaitReason.PILOT, 0)),
            *_closed_throttles(vo, now=now),
            *_closed(vo, places, now=now),
            *(_suspended_owners(vo) if WaitReason.OWNER in waiting else ()),
        ]
        found.append(VOStanding(vo=vo, holds=holds, waiting=waiting))
    return sorted(found, key=lambda standing: not standing.holds)


def _holds(vo: VO, limits: Sequence[LimitStanding], *, now: datetime) -> Iterator[Hold]:
    if why := vo.why_paused(now):
        yield Hold(kind=HoldKind.PAUSE, text=f"{capfirst(why)}.")
    # Those that close the whole VO, a group or a place come first.
    for standing in sorted(limits, key=lambda each: not each.is_closing):
        # A delay passes by itself.
        lasting = replace(standing.bounds, delay_s=None)
        if lasting.room(now=now) == 0 and vo.pk in standing.limit.concerned_vo_ids():
            words = full_in_words(replace(standing, bounds=lasting), now=now)
            yield Hold(kind=HoldKind.LIMIT, text=f"{capfirst(words)}.", what=str(standing.limit.pk))


def _without_pilots(vo: VO, waiting: int) -> Iterator[Hold]:
    # Uses index: pilot_alive_at_queue
    if waiting and not Pilot.objects.filter(vo=vo, ended_at=None).exists():
        text = f"No pilot of {vo} is there or on its way; {_waits(waiting)} for one."
        yield Hold(kind=HoldKind.NO_PILOTS, text=text)


def _closed_throttles(vo: VO, *, now: datetime) -> Iterator[Hold]:
    sites = [site for site in Site.objects.serving(vo).order_by("name") if site.state_at(now) is ResourceState.ACTIVE]
    by_site = standings(sites, now=now)
    for site in sites:
        if site.pk in by_site and not by_site[site.pk].accepting:
            text = f"The throttle of {site} is closed. {by_site[site.pk].why_closed}"
            yield Hold(kind=HoldKind.SITE, text=text, what=site.name)


def _closed(vo: VO, places: Sequence[ClosedPlace], *, now: datetime) -> Iterator[Hold]:
    for place in places:
        if place.is_closed(now=now) and place.serves_one_of({vo.pk}):
            until = f" until {place.until:%Y-%m-%d %H:%M %Z}" if place.until else ""
            reason = f": {place.reason.rstrip('.')}" if place.reason else ""
            text = f"{' / '.join(place.names)} is {place.state}{until}{reason}."
            yield Hold(kind=HoldKind.SITE, text=text, what=place.names[0])


def _suspended_owners(vo: VO) -> Iterator[Hold]:
    """Yield the suspended owners of waiting jobs, those with most jobs first."""
    waiting = CurrentJobCount.objects.filter(vo=vo, status=JobStatus.WAITING, owner__is_active=False)
    by_owner = waiting.values_list("owner__username").annotate(sum=Sum("jobs")).filter(sum__gt=0)
    for name, jobs in by_owner.order_by("-sum", "owner__username")[:_MOST_OWNERS]:
        yield Hold(kind=HoldKind.OWNER, text=f"{name} is suspended: {_waits(jobs)}.", what=name)


def _waits(jobs: int) -> str:
    return f"{counted(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"
