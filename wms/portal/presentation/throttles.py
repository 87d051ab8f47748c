"""Presentation of throttles and limits: gauges, and their room in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from resources.domain.enums import ThrottlePolicy
from resources.models import Site
from resources.queries.throttles import MOST_ROOM_TRIED, ThrottleStanding
from taskqueues.domain.limits import BOUNDS
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words, room_in_words
from wms.portal.forms.throttles import SiteLimitForm


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomGauge:
    """A number of things in use out of the most."""

    used: int
    most: int
    #: Such as "3 of 20 matches left".
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteLimit:
    """A limit at a site, with its room and its form."""

    id: int
    scope: str
    room: str
    #: None: it does not bound the jobs at a time.
    gauge: RoomGauge | None
    form: SiteLimitForm


def throttle_gauge(standing: ThrottleStanding | None) -> RoomGauge | None:
    """Return the matches since the measurement out of those that it left room for; None: that is not a number."""
    left = None if standing is None else standing.room_left
    if standing is None or left is None or not standing.matched + left:
        return None
    if standing.policy is ThrottlePolicy.CUSTOM and left == MOST_ROOM_TRIED:
        return None  # it may be more
    most = standing.matched + left
    return RoomGauge(used=standing.matched, most=most, words=f"{left:,} of {most:,} matches left")


def next_advertisement_at(site: Site, standing: ThrottleStanding | None) -> datetime | None:
    """Return when the site is expected to advertise again; None: it has not advertised, or nothing is throttled."""
    if standing is None or standing.advertised_at is None or standing.is_expired:
        return None
    return standing.advertised_at + timedelta(seconds=site.throttle_advertisement_s)


def limit_views(
    limits: Sequence[Limit], *, now: datetime, refused: SiteLimitForm | None, refused_id: int
) -> Sequence[SiteLimit]:
    """Return limits at a site.

    Args:
        limits: of ``with_counts``, with the rows that they name loaded.
        now: by the database's clock.
        refused: the reader's refused form; None: there is none.
        refused_id: the limit that it is for.
    """
    return [
        SiteLimit(
            id=limit.pk,
            scope=limit_in_words(limit),
            room=room_in_words(limit, now=now),
            gauge=_limit_gauge(limit),
            form=refused if refused is not None and refused_id == limit.pk else _form_of(limit),
        )
        for limit in limits
    ]


def _form_of(limit: Limit) -> SiteLimitForm:
    initial: dict[str, object] = {name: getattr(limit, name) for name in BOUNDS if name in SiteLimitForm.base_fields}
    return SiteLimitForm(initial=initial, auto_id=f"limit-{limit.pk}-%s")


def _limit_gauge(limit: Limit) -> RoomGauge | None:
    if not limit.running:
        return None
    held: int = vars(limit)["held"]
    return RoomGauge(
        used=min(held, limit.running),
        most=limit.running,
        words=f"limit {limit.running:,}: {held:,} run, room for {max(0, limit.running - held):,}",
    )
