"""Downtimes of places, for the match and for pages (ADR 108)."""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from resources.models import Downtime
from wms.kernel.memo import UNCACHED, CachedLookups

#: Primary keys of a site, a CE and a queue; None: of no inner level.
PlaceIds: TypeAlias = tuple[int | None, int | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDowntime:
    """One downtime, as far as the match needs it."""

    begins_at: datetime
    ends_at: datetime
    #: Its place, such as "queue grid".
    place: str
    reason: str

    def is_running(self, *, now: datetime) -> bool:
        """Return whether it has begun and not ended at *now*."""
        return self.begins_at <= now < self.ends_at

    @property
    def running_in_words(self) -> str:
        """Return that its place gives no jobs, as a part of other sentences."""
        return f"{self.place} is in downtime until {self.ends_at:%Y-%m-%d %H:%M %Z}: {_part(self.reason)}"

    @property
    def ahead_in_words(self) -> str:
        """Return which downtime it is, such as "the downtime of site X from … on: maintenance"."""
        return f"the downtime of {self.place} from {self.begins_at:%Y-%m-%d %H:%M %Z} on: {_part(self.reason)}"


def _part(reason: str) -> str:
    return reason.rstrip(" .")


def planned_downtimes() -> Mapping[PlaceIds, Sequence[PlannedDowntime]]:
    """Return all downtimes by place; some may have ended."""
    rows = Downtime.objects.values_list(
        *("site", "ce", "queue", "begins_at", "ends_at", "reason", "site__name", "ce__name", "queue__name")
    ).order_by("begins_at", "pk")
    planned: defaultdict[PlaceIds, list[PlannedDowntime]] = defaultdict(list)
    for site_id, ce_id, queue_id, begins_at, ends_at, reason, site, ce, queue in rows:
        place = f"queue {queue}" if queue else f"computing element {ce}" if ce else f"site {site}"
        planned[site_id, ce_id, queue_id].append(
            PlannedDowntime(begins_at=begins_at, ends_at=ends_at, place=place, reason=reason)
        )
    return dict(planned)


def downtimes_at(places: Iterable[PlaceIds]) -> Sequence[PlannedDowntime]:
    """Return the downtimes of these places and of what is around them; some may have ended."""
    planned = planned_downtimes()
    levels = {
        level: None
        for site, ce, queue in places
        for level in ((site, None, None), (site, ce, None), (site, ce, queue))
        if level in planned
    }
    return [downtime for level in levels for downtime in planned[level]]


def next_downtime(
    function: Callable[..., Sequence[PlannedDowntime]],
    *arguments: Hashable,
    now: datetime,
    lookups: CachedLookups = UNCACHED,
) -> PlannedDowntime | None:
    """Return the downtime that is running, else the one that begins first; None: none is known.

    Args:
        function, arguments: a lookup that returns the downtimes of a place, for *lookups*.
        now: the time; what has ended does not count.
        lookups: memoised lookups of the configuration.
    """
    if not lookups.get(planned_downtimes):
        return None
    left = [downtime for downtime in lookups.get(function, *arguments) if downtime.ends_at > now]
    if running := [downtime for downtime in left if downtime.begins_at <= now]:
        return max(running, key=lambda downtime: (downtime.ends_at, downtime.place))
    return min(left, key=lambda downtime: (downtime.begins_at, downtime.place), default=None)


def changes_of_downtimes() -> Sequence[datetime]:
    """Return the begins and ends of all downtimes, past ones too."""
    return [moment for times in Downtime.objects.values_list("begins_at", "ends_at") for moment in times]
