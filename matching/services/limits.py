"""The counters of limits, which claims update as far as they can without waiting (``sql/limits.sql``)."""

from datetime import timedelta
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
