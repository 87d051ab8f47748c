"""Presentation of the cards of a site, a computing element and a queue: last runs, pilots, and the directors' words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from types import MappingProxyType
from typing import Final

from django.conf import settings
from django.urls import reverse

from matching.queries.place_status import DecidedQueue, Directing, LivingPilots
from pilots.domain.decisions import NoPilots
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from wms.jobs.queries.accounting import ReportSums
from wms.kernel.names import counted, in_percent
from wms.kernel.time_texts import to_the_second
from wms.portal.presentation.pilots import PILOT_BADGES
from wms.portal.presentation.statuses import Segment

_NONE: Final = "–"
_WHY_NONE: Final[Mapping[NoPilots, str]] = MappingProxyType(
    {
        NoPilots.NO_JOBS: "No waiting job fits.",
        NoPilots.COVERED: "Pilots are on their way for all waiting jobs that fit.",
        NoPilots.NO_DIRECTOR: "No director sends pilots to this site.",
        NoPilots.CE_AWAY: "The computing element has not answered lately.",
        NoPilots.STALLED: "Paused, because pilots did not start there in time.",
        NoPilots.FULL: "Full: it has as many pilots as it may have, or as many that wait.",
        NoPilots.CE_FULL: "Full: the computing element takes no more pilots now.",
        NoPilots.THROTTLED: "Throttled: the throttle of the site or a limit leaves no room.",
        NoPilots.EMPTY: "Its last pilots found no job.",
        NoPilots.ELSEWHERE: "Other queues had more room, or the directors had sent as many as they may in a cycle.",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsView:
    """Jobs that ended lately, of the reader or of all."""

    label: str
    #: Such as "12 of 14"; a dash: none.
    text: str
    segments: Sequence[Segment]
    #: CPU time by wall-clock time and processors; a dash: unknown.
    efficiency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorsView:
    """What the directors last did at one queue."""

    queue: str
    ce: str
    url: str
    #: Whether pilots were sent in the last cycle.
    has_sent: bool
    words: str
    #: Such as "12 jobs wanted a pilot"; empty: not for the reader, or none.
    numbers: str
    #: Since when nothing has changed; None: the words are about the present.
    since: datetime | None
    last_sent: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CEView:
    """The last contact with a computing element, for those who may change its site."""

    trouble: str
    shortfalls: str
    asked_at: datetime | None
    free_slots: int | None


def runs_views(*, own: ReportSums, of_all: ReportSums) -> Sequence[RunsView]:
    """Return the runs of the reader against those of all users of the reader's VOs."""
    return [
        _runs_view("My jobs", own),
        _runs_view("Jobs of all users of my VOs", of_all),
    ]


def _runs_view(label: str, sums: ReportSums) -> RunsView:
    ended = sums.done + sums.failed
    kinds = (("done", "Done", sums.done), ("failed", "Failed", sums.failed))
    return RunsView(
        label=label,
        text=f"{sums.done:,} of {ended:,}" if ended else _NONE,
        segments=[Segment(kind=kind, label=name, count=count) for kind, name, count in kinds] if ended else [],
        efficiency=_NONE if sums.efficiency is None else in_percent(sums.efficiency),
    )


def pilot_segments(pilots: Sequence[LivingPilots]) -> Sequence[Segment]:
    """Return the pilots by status that the reader may see."""
    return [
        Segment(kind=PILOT_BADGES[status], label=status, count=number)
        for status in PilotStatus
        if (number := sum(each.visible.get(status, 0) for each in pilots))
    ]


def place_url(level: Site | ComputingElement | Queue) -> str:
    """Return the address of the page of a place, loaded with the levels around it."""
    match level:
        case Queue():
            return reverse("portal:ce-queue", args=[level.ce.site.name, level.ce.name, level.name])
        case ComputingElement():
            return reverse("portal:ce", args=[level.site.name, level.name])
    return reverse("portal:site", args=[level.name])


def ce_view(health: CEHealth | None) -> CEView | None:
    """Return the last contact with a computing element; None: there was none."""
    if health is None:
        return None
    return CEView(
        trouble=health.trouble,
        shortfalls=health.shortfalls,
        asked_at=health.asked_at,
        free_slots=health.free_slots,
    )


def directors_view(queue: Queue, directing: Directing, *, now: datetime, may_decide: bool) -> DirectorsView:
    """Return what the directors last did at a queue, and why.

    Args:
        queue: loaded with its CE and site.
        directing: of this queue.
        now: the present.
        may_decide: whether the reader may change the site; numbers of jobs, which may be those of any VO, and words of
            batch systems are for nobody else.
    """
    decision = directing.decisions.get(queue.pk)
    present = _why_not_asked(queue, directing.health.get(queue.ce_id), now=now, may_decide=may_decide)
    is_present = bool(present) or decision is None
    return DirectorsView(
        queue=queue.name,
        ce=queue.ce.name,
        url=place_url(queue),
        has_sent=not is_present and decision is not None and decision.sent > 0,
        words=present or _decided(decision, may_decide=may_decide),
        numbers="" if is_present or decision is None or not may_decide else _numbers(decision),
        since=None if is_present or decision is None else decision.decided_at,
        last_sent=directing.last_sent.get(queue.pk),
    )


def revision_of(directing: Directing) -> Sequence[object]:
    """Return values that change with what pages show of it."""
    contacts = [
        (health.pk, health.trouble, health.shortfalls, health.ask_after, health.send_after, health.free_slots)
        for health in directing.health.values()
    ]
    return [
        directing.ran_at,
        *sorted(directing.decisions.items(), key=itemgetter(0)),
        *sorted(contacts, key=itemgetter(0)),
    ]


def _why_not_asked(queue: Queue, health: CEHealth | None, *, now: datetime, may_decide: bool) -> str:
    """Return why the directors do not consider the queue at present; empty: they do."""
    levels = (("site", queue.ce.site), ("computing element", queue.ce), ("queue", queue))
    for noun, level in levels:
        if level.state_at(now) is not ResourceState.ACTIVE:
            return f"No pilots are sent: the {noun} is {level.state_at(now)}."
    if queue.is_left_to_site:
        return "The site starts the pilots; directors send none."
    if queue.ce.type not in settings.WMS_BACKENDS:
        return f"No pilots are sent to computing elements of the type {queue.ce.type}."
    pauses = [] if health is None else [at for at in (health.ask_after, health.send_after) if at and at > now]
    if health is not None and pauses:
        trouble = health.trouble if may_decide else "it failed, or its last pilots did"
        return f"The computing element is backing off until {to_the_second(max(pauses))}: {trouble.rstrip('.')}."
    return ""


def _decided(decision: DecidedQueue | None, *, may_decide: bool) -> str:
    if decision is None:
        return "No cycle of the directors has considered it yet."
    if decision.why_none is not None:
        return _WHY_NONE[decision.why_none]
    return f"{counted(decision.sent, 'pilot')} sent." if may_decide else "Pilots were sent."


def _numbers(decision: DecidedQueue) -> str:
    return f"{counted(decision.wanted, 'job')} without a pilot on the way" if decision.wanted else ""
