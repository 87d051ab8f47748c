"""Limits: their counters, which claims update without waiting (``sql/limits.sql``), and those recently found full."""

from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from time import monotonic
from typing import Final

from taskqueues.models import Limit, LimitEvent, LimitHour
from wms.kernel.db import DatabaseNow
from wms.kernel.fast.statements import query_prepared

#: Age at which the counter of an hour is of no use any more, from the beginning of the hour; as in ``sql/limits.sql``.
HOUR_COUNTS: Final = timedelta(hours=25)


def has_room(limit_id: int) -> bool:
    """Return whether a limit that a claim found full has room once all recent events are summed up."""
    ((room,),) = query_prepared("SELECT wms_sum_up_limit(%s)", limit_id)
    return bool(room)


def sum_up() -> None:
    """Sum up the events of each limit, so that few are left to those who must do it at once.

    This also drops the CPU time of expired hours: no pilots are sent for jobs of a quota that looks exhausted, so no
    claim would ever find that it is not.
    """
    # First: events of a deleted limit cannot be summed up, and would stop all other sums.
    LimitEvent.objects.exclude(limit__in=Limit.objects.all()).delete()
    of_events = LimitEvent.objects.order_by().values_list("limit", flat=True)
    of_hours = LimitHour.objects.filter(began_at__lte=DatabaseNow() - HOUR_COUNTS).order_by()
    for limit_id in sorted(of_events.union(of_hours.values_list("limit", flat=True))):
        has_room(limit_id)


#: Seconds for which a limit is taken to be full: the age that the index may have too (docs/architecture.md, The claim).
REMEMBERED_S: Final = 1.0


class FullLimits:
    """Full limits, each with the time until which it is taken to be full; threads share it.

    A claim refused by a full limit takes as long as a successful one. So each process makes about one a second and
    limit. Pilots that would get nothing else claim anyway, so that the database decides.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def note(self, limit_id: int, *, delay_s: float | None = None) -> None:
        """Record that a claim found the limit full.

        Args:
            limit_id: primary key of the limit.
            delay_s: seconds between its matches, after which it opens if only the delay closed it; None: no delay.
        """
        with self._lock:
            self._until[limit_id] = self._clock() + min(REMEMBERED_S, delay_s or REMEMBERED_S)

    def recent(self) -> frozenset[int]:
        """Return the limits that are taken to be full now."""
        if not self._until:
            return frozenset()
        now = self._clock()
        with self._lock:
            self._until = {limit: until for limit, until in self._until.items() if until >= now}
            return frozenset(self._until)


#: The instance of this process.
full_limits = FullLimits()
