"""State of the throttles of sites: remaining matches, times, and why a site is closed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from resources.domain.advertised_load import FIELD_OF_MAXIMUM
from resources.domain.enums import ThrottlePolicy, WhenExpired
from resources.domain.gateways import GatewayState, gateway_states
from resources.domain.throttle_conditions import ThrottleCondition, undefined_in
from resources.domain.throttles import Throttle
from resources.models import Site, ThrottleState
from wms.kernel.names import listed
from wms.kernel.time_texts import to_the_second

#: Matches up to which an expression is evaluated for display; each takes another evaluation of the site's own text.
MOST_ROOM_TRIED: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleStanding:
    """The throttle of one site at one moment."""

    policy: ThrottlePolicy
    #: Whether it accepts a further match; if an expression depends on the job: whether it may accept some job.
    accepting: bool
    #: Matches until it closes, with an expression at most MOST_ROOM_TRIED; if the expression depends on the job, the
    #: upper bound from the policy's numbers. None: not known before the server has counted, or only the job decides.
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
    #: Whether the numbers are the server's own count.
    counts_itself: bool
    #: The last advertisement of each of its gateways.
    gateways: Sequence[GatewayState] = ()
    #: One sentence; empty: it accepts matches.
    why_closed: str
    #: Why the advertisement in this request was ignored as outdated, and the remedy; empty: it was accepted.
    why_ignored: str = ""
    #: Last sequence of the gateway in this request, and when it is forgotten; None: it has none.
    last_sequence: tuple[int, datetime] | None = None

    @property
    def room_in_words(self) -> str:
        """Return how many further matches are accepted, or what decides that."""
        if self.room_left is None:
            return "counted at the next match" if self.is_expired else "depends on the job"
        more = self.policy is ThrottlePolicy.CUSTOM and self.room_left == MOST_ROOM_TRIED
        return f"{self.room_left} or more" if more else str(self.room_left)

    @property
    def sequence(self) -> int | None:
        """Return the last accepted sequence of the gateway in this request."""
        return None if self.last_sequence is None else self.last_sequence[0]

    @property
    def ignored(self) -> bool:
        """Return whether the advertisement in this request was ignored."""
        return bool(self.why_ignored)


def gateways_of(state: ThrottleState) -> Sequence[GatewayState]:
    """Return the states of a site's gateways; empty if the server has counted itself since."""
    return [] if state.advertised_at is None else gateway_states(state.gateways)


def throttle_in(site: Site, state: ThrottleState, *, now: datetime | None = None) -> Throttle:
    """Return the site's throttle with its configuration and its load.

    Args:
        site: with its configuration.
        state: of that site.
        now: the database's clock; None: for what does not depend on the time.
    """
    return Throttle(
        policy=ThrottlePolicy(site.throttle_policy),
        maxima={name: most for name, field in FIELD_OF_MAXIMUM.items() if (most := getattr(site, field)) is not None},
        requirements=site.throttle_requirements,
        advertised=state.advertised,
        classad=state.classad,
        # With one gateway, the sums are its own numbers.
        gateways=tuple(each.ad for each in gateways_of(state)) if len(state.gateways) > 1 else (),
        now=None if now is None else int(now.timestamp()),
    )


def remarks_on(requirements: str, state: ThrottleState | None) -> Sequence[str]:
    """Return a sentence on each name of a site's expression that neither jobs nor its last advertisement have.

    Args:
        requirements: the expression.
        state: of the site's throttle; None: it has never advertised.
    """
    classads = [] if state is None else [gateway.classad for gateway in gateways_of(state)]
    return [
        f"neither jobs nor the site's last advertisement have {name}, so it is undefined until the site advertises it."
        f"{hint}"
        for name, hint in undefined_in(requirements, classads=classads).items()
    ]


def throttle_of(site: Site, state: ThrottleState | None, *, now: datetime) -> ThrottleStanding | None:
    """Return the state of the throttle of *site*; None: it has none.

    Args:
        site: with its current configuration.
        state: of that site; None: nothing was advertised or counted yet.
        now: the database's clock.
    """
    if site.throttle_policy == ThrottlePolicy.NONE:
        return None
    if state is None or state.expires_at <= now:
        return _expired(site, state)
    throttle = throttle_in(site, state, now=now)
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
    """Return the states of the throttles of those *sites* that have one, by the site's primary key; one statement."""
    throttled = [site for site in sites if site.throttle_policy != ThrottlePolicy.NONE]
    states = ThrottleState.objects.in_bulk([site.pk for site in throttled])
    by_site = {site.pk: throttle_of(site, states.get(site.pk), now=now) for site in throttled}
    return {pk: standing for pk, standing in by_site.items() if standing is not None}


def _expired(site: Site, state: ThrottleState | None) -> ThrottleStanding:
    """Return the state of a site without valid numbers: the server counts at the next match, or the site is closed."""
    throttle, why_closed = throttle_in(site, state or ThrottleState(site=site)), ""
    if site.throttle_when_expired == WhenExpired.CLOSED:
        since = "The site has never advertised"
        if state is not None:
            since = f"What was last known of the site expired at {to_the_second(state.expires_at)}"
        why_closed = f"{since}, and it stays closed until an advertisement of it is accepted."
    elif zero := throttle.maximum_of_zero:
        why_closed = f"{zero} is 0, which leaves no room for any match."
    return ThrottleStanding(
        policy=throttle.policy,
        accepting=not why_closed,
        room_left=0 if why_closed else None,
        cur_matches=None if state is None else _cur_matches(throttle, state),
        matched=0 if state is None else state.matched,
        advertised_at=None if state is None else state.advertised_at,
        measured_at=None if state is None else state.measured_at,
        expires_at=None if state is None else state.expires_at,
        is_expired=True,
        counts_itself=site.throttle_when_expired == WhenExpired.COUNT,
        gateways=() if state is None else gateways_of(state),
        why_closed=why_closed,
    )


def _with_ignored(why_closed: str, state: ThrottleState) -> str:
    """Return why it is closed; if advertisements were ignored since, also why."""
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
        return f"The site has no value of {lacking}, which the policy {throttle.policy} requires."
    most = throttle.most
    if most == 0:
        return _no_room(throttle, state)
    if most is not None and state.matched >= most:
        matches = "1 match" if state.matched == 1 else f"{state.matched} matches"
        return f"{matches} since the measurement, which left room for {most}."
    condition = throttle.in_the_way(matched=state.matched)
    return "" if condition is None else _not_true(condition, throttle, state)


def _no_room(throttle: Throttle, state: ThrottleState) -> str:
    """Return which numbers leave no room for any match."""
    maximum, counted, of_whom = throttle.tightest
    if not counted:
        return f"{maximum} is {of_whom.maximum(maximum)}, which leaves no room for any match."
    numbers = " and ".join(f"{name} = {of_whom.advertised[name]}" for name in counted)
    by_whom = "The server counted" if state.advertised_at is None else "The site advertised"
    return f"{by_whom} {numbers}, which leaves no room: {maximum} is {of_whom.maximum(maximum)}."


def _not_true(condition: ThrottleCondition, throttle: Throttle, state: ThrottleState) -> str:
    """Return which expression is not TRUE, and its value."""
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
    if condition.reach.uses_time and throttle.now is not None:
        at += f", {to_the_second(datetime.fromtimestamp(throttle.now, UTC))}"
    lacking = condition.lacking
    why = f": neither the advertisement nor jobs have {listed(lacking, last=' or ')}" if lacking else ""
    return f"{subject}{at}{', whatever the job is' if condition.asks_of_the_job else ''}{why}."
