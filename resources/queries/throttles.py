"""How the throttles of sites stand: the room that is left, since when, and why a site is closed (DESIGN §3.6)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.domain.gateways import GatewayState, gateway_states
from resources.domain.throttles import FIELD_OF_MAXIMUM, Throttle, ThrottleCondition
from resources.models import Site, ThrottleState
from wms.kernel.time_texts import to_the_second

#: Of an expression it is told only up to here: each more is another evaluation, of what a site may have written.
MOST_ROOM_TRIED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleStanding:
    """The throttle of one site at one moment."""

    policy: ThrottlePolicy
    #: Whether it takes one more match; of an expression that asks about the job: of some job, as far as can be told.
    accepting: bool
    #: Matches until it is closed, of an expression at most MOST_ROOM_TRIED; of one that asks about the job, what the
    #: policy's numbers leave at most. None: not known before the server has counted, or the job alone decides.
    room_left: int | None
    #: None: undefined, or nothing was measured yet.
    cur_matches: int | None
    #: Matches since the measurement.
    matched: int
    #: None: the server counted itself, or nothing was advertised yet.
    advertised_at: datetime | None
    measured_at: datetime | None
    expires_at: datetime | None
    is_expired: bool
    #: The numbers are the server's own.
    counts_itself: bool
    #: What each of its gateways advertised last.
    gateways: Sequence[GatewayState] = ()
    #: One sentence; empty: it accepts.
    why_closed: str
    #: The advertisement that is answered was not later than the last one of its gateway, and changed nothing: why, and
    #: what to do; empty: it was accepted.
    why_ignored: str = ""
    #: Of the gateway that is answered, and when it is forgotten; None: it has none.
    last_sequence: tuple[int, datetime] | None = None

    @property
    def sequence(self) -> int | None:
        """The last accepted one of the gateway that is answered."""
        return None if self.last_sequence is None else self.last_sequence[0]

    @property
    def ignored(self) -> bool:
        """Whether the advertisement that is answered changed nothing."""
        return bool(self.why_ignored)


def gateways_of(state: ThrottleState) -> Sequence[GatewayState]:
    """Return what the gateways of a site advertised last; nothing where the server counted itself since."""
    return [] if state.advertised_at is None else gateway_states(state.gateways)


def throttle_in(site: Site, state: ThrottleState) -> Throttle:
    """Return the rules of the site's throttle with what is known of the site."""
    return Throttle(
        policy=ThrottlePolicy(site.throttle_policy),
        maxima={name: most for name, field in FIELD_OF_MAXIMUM.items() if (most := getattr(site, field)) is not None},
        requirements=site.throttle_requirements,
        advertised=state.advertised,
        classad=state.classad,
        # Of one gateway the sums are its own numbers.
        gateways=tuple(each.ad for each in gateways_of(state)) if len(state.gateways) > 1 else (),
    )


def throttle_of(site: Site, state: ThrottleState | None, *, now: datetime) -> ThrottleStanding | None:
    """Return how the throttle of *site* stands; None: it has none.

    Args:
        site: whose configuration counts.
        state: of that site; None: it never advertised, and nothing was counted.
        now: the database's clock.
    """
    if site.throttle_policy == ThrottlePolicy.NONE:
        return None
    if state is None or state.expires_at <= now:
        return _expired(site, state)
    throttle = throttle_in(site, state)
    why_closed = _why_closed(throttle, state)
    return ThrottleStanding(
        policy=throttle.policy,
        accepting=not why_closed,
        room_left=0 if why_closed else _room_left(throttle, state),
        cur_matches=_cur_matches(throttle, state),
        matched=state.matched,
        advertised_at=state.advertised_at,
        measured_at=state.measured_at,
        expires_at=state.expires_at,
        is_expired=False,
        counts_itself=state.advertised_at is None,
        gateways=gateways_of(state),
        why_closed=_with_ignored(why_closed, state),
    )


def standings(sites: Iterable[Site], *, now: datetime) -> Mapping[int, ThrottleStanding]:
    """Return how the throttles of those *sites* that have one stand, by the site's primary key; one statement."""
    throttled = [site for site in sites if site.throttle_policy != ThrottlePolicy.NONE]
    states = ThrottleState.objects.in_bulk([site.pk for site in throttled])
    found = {site.pk: throttle_of(site, states.get(site.pk), now=now) for site in throttled}
    return {pk: standing for pk, standing in found.items() if standing is not None}


def _expired(site: Site, state: ThrottleState | None) -> ThrottleStanding:
    """Return the standing of a site of which nothing is known that still holds: the server counts at the next match."""
    is_closed = site.throttle_when_expired == WhenExpired.CLOSED
    since = "The site has never advertised"
    if state is not None:
        since = f"What was last known of the site expired at {to_the_second(state.expires_at)}"
    return ThrottleStanding(
        policy=ThrottlePolicy(site.throttle_policy),
        accepting=not is_closed,
        room_left=0 if is_closed else None,
        cur_matches=None if state is None else _cur_matches(throttle_in(site, state), state),
        matched=0 if state is None else state.matched,
        advertised_at=None if state is None else state.advertised_at,
        measured_at=None if state is None else state.measured_at,
        expires_at=None if state is None else state.expires_at,
        is_expired=True,
        counts_itself=not is_closed,
        gateways=() if state is None else gateways_of(state),
        why_closed=f"{since}, and it stays closed until an advertisement of it is accepted." if is_closed else "",
    )


def _with_ignored(why_closed: str, state: ThrottleState) -> str:
    """Return why it is closed and, if advertisements arrived since that changed nothing, why those were ignored."""
    ignored = [each for each in gateways_of(state) if each.ignored_at is not None]
    if not why_closed or not ignored:
        return why_closed
    last = max(ignored, key=lambda each: each.ignored_at or each.advertised_at)
    gateway = f" of the gateway {last.name}" if last.name else ""
    return f"{why_closed} An advertisement{gateway} was ignored at {to_the_second(last.ignored_at)}: {last.why_ignored}"


def _room_left(throttle: Throttle, state: ThrottleState) -> int | None:
    if throttle.asks_of_the_job:
        return None if throttle.most is None else max(0, throttle.most - state.matched)
    return throttle.left(matched=state.matched, most_tried=MOST_ROOM_TRIED)


def _cur_matches(throttle: Throttle, state: ThrottleState) -> int | None:
    return None if throttle.start is None else throttle.start + state.matched


def _why_closed(throttle: Throttle, state: ThrottleState) -> str:
    if throttle.missing:
        lacking = " and ".join(throttle.missing)
        return f"Nobody said what {lacking} is at the site, without which {throttle.policy} is closed."
    most = throttle.most
    if most == 0:
        return _no_room(throttle, state)
    if most is not None and state.matched >= most:
        return f"{state.matched} matches since the measurement, which left room for {most}."
    condition = throttle.in_the_way(matched=state.matched)
    return "" if condition is None else _not_true(condition, throttle, state)


def _no_room(throttle: Throttle, state: ThrottleState) -> str:
    """Return which numbers left no room for any match."""
    maximum, counted, of_whom = throttle.tightest
    if not counted:
        return f"{maximum} is {of_whom.maximum(maximum)}, which leaves no room for any match."
    numbers = " and ".join(f"{name} = {of_whom.advertised[name]}" for name in counted)
    by_whom = "The server counted" if state.advertised_at is None else "The site advertised"
    return f"{by_whom} {numbers}, which leaves no room: {maximum} is {of_whom.maximum(maximum)}."


def _not_true(condition: ThrottleCondition, throttle: Throttle, state: ThrottleState) -> str:
    """Return which expression is in the way, and what it is worth."""
    if condition.is_advertised:
        gateway = f"gateway {condition.gateway} of the site" if condition.gateway else "site"
        subject = f"The Requirements that the {gateway} advertised are {condition.in_words()}"
    else:
        subject = "The site's expression is not TRUE"
    at = (
        f" at CurMatches {_cur_matches(throttle, state)}"
        if condition.counts_matches or not condition.is_advertised
        else ""
    )
    return f"{subject}{at}{', whatever the job is' if condition.asks_of_the_job else ''}."
