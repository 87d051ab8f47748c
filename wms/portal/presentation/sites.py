"""Presentation of sites: states, what they offer, and what happens there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from operator import itemgetter
from types import MappingProxyType
from typing import Final
from urllib.parse import urlencode

from django.urls import reverse

from matching.queries.site_status import RecentSuccess, SiteStatus
from pilots.domain.pilot import PilotStatus
from resources.domain.enums import DowntimeSource, ResourceState
from resources.models import ComputingElement, Downtime, Queue, ResourceLevel, Site
from resources.queries.throttles import ThrottleStanding
from resources.services.states import full_name
from wms.kernel.names import listed
from wms.kernel.time_texts import duration
from wms.portal.forms.sites import DowntimeForm, PlaceStateForm
from wms.portal.presentation.job_orders import Heading
from wms.portal.presentation.pilots import PILOT_BADGES
from wms.portal.presentation.places import place_url
from wms.portal.presentation.statuses import Segment
from wms.portal.search import query_of
from wms.wire.amounts import AMOUNTS

#: {state: (style of its badge, icon)}.
_LOOKS: Final[Mapping[ResourceState, tuple[str, str]]] = MappingProxyType(
    {
        ResourceState.ACTIVE: ("done", "circle-check"),
        ResourceState.DRAINING: ("held", "hourglass"),
        ResourceState.BANNED: ("failed", "ban"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DowntimeRow:
    """A downtime of a site, or of a CE or a queue of it."""

    id: int
    place: str
    begins_at: datetime
    ends_at: datetime
    reason: str
    #: Where it was announced.
    source: str
    is_running: bool
    #: Whether those who may change the site end it here.
    may_be_ended: bool
    #: Of those who may change the site; None: it is not changed here.
    form: DowntimeForm | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateView:
    """The state of a site, computing element or queue."""

    name: str
    badge: str
    icon: str
    #: Empty if it is active.
    reason: str
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateButton:
    """A button that sets a state."""

    state: str
    label: str
    #: Style of the button; empty: plain.
    style: str
    needs_reason: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDecision:
    """The form that sets the state of one place, for those who may."""

    id: str
    #: In words, such as "queue grid of computing element ce01 at site LCG.CERN.ch".
    place: str
    #: Names that the form sends; empty: a level further outwards.
    ce: str
    queue: str
    #: A sentence about its own state, if that of an outer level is shown; empty: its own is shown.
    own_state: str
    buttons: Sequence[StateButton]
    #: The refused form; None: nothing was sent.
    refused: PlaceStateForm | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedCE:
    """One computing element, with the living pilots of the reader's VOs, for those who may set its state."""

    name: str
    url: str
    state: StateView
    pilots: int
    decision: StateDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """Jobs that ended lately."""

    #: Such as "12 of 14"; a dash: none.
    text: str
    segments: Sequence[Segment]


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteRow:
    """One site in a list, and at the head of its page."""

    name: str
    url: str
    state: StateView
    ces: int
    queues: int
    #: Such as "2 of 5 queues banned"; empty: all take jobs, or the site itself does not.
    closed_queues: str
    own_running: int
    all_running: int
    pilots: int
    #: Of the pilots that the reader may see; empty: of none.
    pilots_by_status: Sequence[Segment]
    own_success: Success
    all_success: Success
    #: Of the throttle; empty: the site has none.
    throttle: str
    is_throttled: bool
    #: Address of the reader's jobs there.
    jobs_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedQueue:
    """One batch queue and the offer of one of its slots."""

    ce: str
    name: str
    url: str
    state: StateView
    #: Living ones of the reader's VOs.
    pilots: int
    is_left_to_site: bool
    cpu_time: str
    amounts: Sequence[str]
    platforms: str
    tags: str
    job_types: str
    container: str
    #: None: the reader may not set its state.
    decision: StateDecision | None


#: In the order of the list.
_STATES: Final = (ResourceState.BANNED, ResourceState.DRAINING, ResourceState.ACTIVE)
#: Names of the orders of the list; each may be reversed.
_ORDERS: Final[Mapping[str, Callable[[Site, SiteStatus, datetime], str | float | None]]] = MappingProxyType(
    {
        "name": lambda site, _status, _now: site.name,
        "state": lambda site, _status, now: _STATES.index(site.state_at(now)),
        "mine": lambda _site, status, _now: status.own_leased,
        "jobs": lambda _site, status, _now: status.all_leased,
        "pilots": lambda _site, status, _now: status.pilots,
        "my-success": lambda _site, status, _now: _part_done(status.own),
        "success": lambda _site, status, _now: _part_done(status.all),
    }
)
#: (Heading, its order; empty: none, whether the column has numbers).
_HEADINGS: Final = (
    ("Site", "name", False),
    ("State", "state", False),
    ("CEs", "", True),
    ("Queues", "", True),
    ("My jobs there", "mine", True),
    ("All jobs there", "jobs", True),
    ("Pilots", "pilots", True),
    ("My successes, last day", "my-success", False),
    ("All successes, last day", "success", False),
    ("Throttle", "", False),
)


def _part_done(recent: RecentSuccess) -> float | None:
    ended = recent.done + recent.failed
    return recent.done / ended if ended else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteOrder:
    """The order of the list of sites."""

    name: str
    is_reversed: bool

    @classmethod
    def of(cls, text: str) -> "SiteOrder":
        """Return the order of a query string, such as "-pilots"; unknown ones are that by name."""
        name = text.removeprefix("-")
        return (
            cls(name=name, is_reversed=text.startswith("-")) if name in _ORDERS else cls(name="name", is_reversed=False)
        )

    @property
    def is_by_name(self) -> bool:
        """Whether the sites are in the order of their names."""
        return self.name == "name"

    def sorted(self, sites: Sequence[Site], statuses: Mapping[int, SiteStatus], *, now: datetime) -> Sequence[Site]:
        """Return sites, which are in the order of their names, in this order; those without a value are last."""
        valued = [(_ORDERS[self.name](site, statuses[site.pk], now), site) for site in sites]
        known = sorted((pair for pair in valued if pair[0] is not None), key=itemgetter(0), reverse=self.is_reversed)
        return [*(site for _, site in known), *(site for value, site in valued if value is None)]

    def headings(self, *, search: str) -> Sequence[Heading]:
        """Return the headings of the list, each with a link that sorts by it.

        Args:
            search: the part of the names that is searched for.
        """
        return [
            Heading(
                label=label,
                is_number=is_number,
                query=self._query(order, search=search) if order else "",
                sorted=("descending" if self.is_reversed else "ascending") if order == self.name else "",
                icon=("arrow-down" if self.is_reversed else "arrow-up") if order == self.name else "",
            )
            for label, order, is_number in _HEADINGS
        ]

    def _query(self, order: str, *, search: str) -> str:
        # Numbers are most looked at from the largest on.
        starts_reversed = order in {"mine", "jobs", "pilots"}
        is_reversed = not self.is_reversed if order == self.name else starts_reversed
        return urlencode({**({"name": search} if search else {}), "sort": f"{'-' if is_reversed else ''}{order}"})


_BAN: Final = StateButton(state=ResourceState.BANNED, label="Ban", style="danger", needs_reason=True)
_DRAIN: Final = StateButton(state=ResourceState.DRAINING, label="Drain", style="", needs_reason=True)
_ALLOW: Final = StateButton(state=ResourceState.ACTIVE, label="Allow", style="primary", needs_reason=False)
_OTHER_END: Final = "Change reason and end"
#: {state in force: its buttons}; the first is also pressed by Enter in the reason.
_BUTTONS: Final[Mapping[ResourceState, Sequence[StateButton]]] = MappingProxyType(
    {
        ResourceState.ACTIVE: (_DRAIN, _BAN),
        ResourceState.DRAINING: (replace(_DRAIN, label=_OTHER_END), _BAN, _ALLOW),
        ResourceState.BANNED: (replace(_BAN, label=_OTHER_END, style=""), _DRAIN, _ALLOW),
    }
)


def site_row(site: Site, status: SiteStatus, *, now: datetime) -> SiteRow:
    """Return a site with what happens there.

    Args:
        site: the site.
        status: what it has, and what happens there.
        now: time for which its state is shown.
    """
    return SiteRow(
        name=site.name,
        url=reverse("portal:site", args=[site.name]),
        state=state_view(site, now=now),
        ces=status.ces,
        queues=status.queues,
        closed_queues=_closed_queues(status) if site.state_at(now) is ResourceState.ACTIVE else "",
        own_running=status.own_leased,
        all_running=status.all_leased,
        pilots=status.pilots,
        pilots_by_status=[
            Segment(kind=PILOT_BADGES[PilotStatus(name)], label=name, count=number)
            for name, number in status.visible_pilots.items()
        ],
        own_success=_success(status.own),
        all_success=_success(status.all),
        throttle=_throttle(status.throttle),
        is_throttled=status.throttle is not None and not status.throttle.accepting,
        jobs_url=f"{reverse('portal:jobs')}?{query_of(site=site.name)}",
    )


def offered_queue(
    queue: Queue, *, pilots: int, now: datetime, may_decide: bool, refused: PlaceStateForm | None = None
) -> OfferedQueue:
    """Return a batch queue, loaded with its CE and site, and what it offers.

    Args:
        queue: the queue.
        pilots: living ones of the reader's VOs.
        now: time for which its state is shown.
        may_decide: whether the reader may set its state.
        refused: the reader's refused form, of any place of the site.
    """
    ce_state, state = state_view(queue.ce, now=now), state_view(queue, now=now)
    return OfferedQueue(
        ce=queue.ce.name,
        name=queue.name,
        url=place_url(queue),
        pilots=pilots,
        state=state if queue.ce.state_at(now) is ResourceState.ACTIVE else ce_state,
        is_left_to_site=queue.is_left_to_site,
        cpu_time=duration(queue.cpu_time_s),
        amounts=[_amount(getattr(queue, amount.name), amount.unit) for amount in AMOUNTS],
        platforms=listed(queue.platforms),
        tags=", ".join(f"{tag} (required)" if tag in queue.required_tags else tag for tag in queue.tags),
        job_types=listed(queue.job_types),
        container="yes" if queue.container else "no",
        decision=state_decision(queue, now=now, refused=refused) if may_decide else None,
    )


def offered_ce(ce: ComputingElement, *, pilots: int, now: datetime, refused: PlaceStateForm | None) -> OfferedCE:
    """Return a computing element, loaded with its site; arguments as of ``offered_queue``."""
    decision = state_decision(ce, now=now, refused=refused)
    return OfferedCE(name=ce.name, url=place_url(ce), pilots=pilots, state=state_view(ce, now=now), decision=decision)


def state_decision(
    level: Site | ComputingElement | Queue, *, now: datetime, refused: PlaceStateForm | None
) -> StateDecision:
    """Return the form of one place; arguments as of ``offered_queue``."""
    ce, queue, own_state = "", "", ""
    match level:
        case ComputingElement():
            ce = level.name
        case Queue():
            ce, queue = level.ce.name, level.name
            if level.ce.state_at(now) is not ResourceState.ACTIVE:
                own_state = f"The queue itself is {level.state_at(now)}; the state shown is that of its CE."
    is_refused = refused is not None and (refused["ce"].value(), refused["queue"].value()) == (ce, queue)
    return StateDecision(
        id="-".join(["state-of", level._meta.model_name or "", str(level.pk)]),
        place=full_name(level),
        ce=ce,
        queue=queue,
        own_state=own_state,
        buttons=_BUTTONS[level.state_at(now)],
        refused=refused if is_refused else None,
    )


def downtime_row(
    downtime: Downtime, *, now: datetime, refused: DowntimeForm | None = None, may_decide: bool = False
) -> DowntimeRow:
    """Return a downtime, loaded with its place, that has not ended; *refused*: its form."""
    is_running, is_from_here = downtime.begins_at <= now, downtime.source == DowntimeSource.HERE
    return DowntimeRow(
        id=downtime.pk,
        place=full_name(downtime.level),
        begins_at=downtime.begins_at,
        ends_at=downtime.ends_at,
        reason=downtime.reason,
        source="here" if is_from_here else "in GOCDB",
        is_running=is_running,
        may_be_ended=is_running or is_from_here,
        form=refused or (DowntimeForm.of(downtime) if may_decide and is_from_here else None),
    )


def downtime_places(ces: Sequence[ComputingElement], queues: Sequence[Queue]) -> Sequence[tuple[str, str]]:
    """Return (value, words) of the places of a site for which a downtime may be declared."""
    return [
        ("", "the whole site"),
        *((ce.name, f"CE {ce.name}") for ce in ces),
        *((f"{queue.ce.name}/{queue.name}", f"queue {queue.name} of {queue.ce.name}") for queue in queues),
    ]


def amount_labels() -> Sequence[str]:
    """Return the headings of the amounts that queues offer."""
    return [amount.label for amount in AMOUNTS]


def state_view(level: ResourceLevel, *, now: datetime) -> StateView:
    """Return the state in force."""
    state = level.state_at(now)
    badge, icon = _LOOKS[state]
    is_active = state is ResourceState.ACTIVE
    return StateView(
        name=state,
        badge=badge,
        icon=icon,
        reason="" if is_active else level.state_reason,
        until=None if is_active else level.state_until,
    )


def _closed_queues(status: SiteStatus) -> str:
    parts = [
        f"{number:,}{f' of {status.queues:,} queues' if not place else ''} {state}"
        for place, (state, number) in enumerate(sorted(status.closed_queues.items()))
    ]
    return ", ".join(parts)


def _amount(value: int | None, unit: str) -> str:
    if value is None:
        return "not limited"
    return duration(value) if unit == "s" else f"{value:,} {unit}".rstrip()


def _success(recent: RecentSuccess) -> Success:
    ended = recent.done + recent.failed
    return Success(
        text=f"{recent.done:,} of {ended:,}" if ended else "–",
        segments=[
            Segment(kind="done", label="Done", count=recent.done),
            Segment(kind="failed", label="Failed", count=recent.failed),
        ]
        if ended
        else [],
    )


def _throttle(standing: ThrottleStanding | None) -> str:
    if standing is None:
        return ""
    if not standing.accepting:
        return f"closed: {standing.why_closed}"
    matches = "match" if standing.room_left == 1 else "matches"
    return "open" if standing.room_left is None else f"open: room for {standing.room_in_words} more {matches}"
