"""How the throttles of sites stand: the room that is left, since when, and why a site is closed (DESIGN §3.6)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from resources.domain.throttles import FIELD_OF_MAXIMUM, Throttle
from resources.domain.words import ThrottlePolicy, WhenExpired
from resources.models import Site, ThrottleState

#: Of an expression it is told only up to here: each more is another evaluation, of what a site may have written.
MOST_ROOM_TRIED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleStanding:
    """The throttle of one site at one moment."""

    policy: ThrottlePolicy
    #: Whether it takes one more match. Of an expression that asks about the job: it may.
    accepting: bool
    #: Matches until it is closed, of an expression at most MOST_ROOM_TRIED; None: not known before the server has
    #: counted, or the job decides.
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
    sequence: int | None
    #: One sentence; empty: it accepts.
    why_closed: str
    #: The advertisement that is answered was not later than the last one, and changed nothing.
    ignored: bool = False


def throttle_in(site: Site, state: ThrottleState) -> Throttle:
    """Return the rules of the site's throttle with what is known of the site."""
    return Throttle(
        policy=ThrottlePolicy(site.throttle_policy),
        maxima={name: most for name, field in FIELD_OF_MAXIMUM.items() if (most := getattr(site, field)) is not None},
        requirements=site.throttle_requirements,
        advertised=state.advertised,
        classad=state.classad,
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
        sequence=state.sequence,
        why_closed=why_closed,
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
        since = f"What was last known of the site expired at {state.expires_at:%Y-%m-%d %H:%M:%S %Z}"
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
        sequence=None if state is None else state.sequence,
        why_closed=f"{since}, and it stays closed until it advertises." if is_closed else "",
    )


def _room_left(throttle: Throttle, state: ThrottleState) -> int | None:
    return None if throttle.asks_of_the_job else throttle.left(matched=state.matched, most_tried=MOST_ROOM_TRIED)


def _cur_matches(throttle: Throttle, state: ThrottleState) -> int | None:
    return None if throttle.start is None else throttle.start + state.matched


def _why_closed(throttle: Throttle, state: ThrottleState) -> str:
    if throttle.missing:
        lacking = " and ".join(throttle.missing)
        return f"Nobody said what {lacking} is at the site, without which {throttle.policy} is closed."
    if throttle.asks_of_the_job or throttle.accepts(matched=state.matched):
        return ""
    if throttle.room is None:
        return f"The site's expression is not TRUE at CurMatches {_cur_matches(throttle, state)}."
    left = f"left room for {throttle.room}" if throttle.room else "left no room"
    return f"{state.matched} matches since the measurement, which {left}."
