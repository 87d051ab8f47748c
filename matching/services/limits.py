"""The counters of limits, of which claims see to what they can without waiting (DESIGN §3.6; ``sql/limits.sql``)."""

from datetime import timedelta
from typing import Final

from taskqueues.models import Limit, LimitEvent, LimitHour
from wms.kernel.db import DatabaseNow, ask_prepared

#: From its beginning on, until all of it is a day ago; as in ``sql/limits.sql``.
HOUR_COUNTS: Final = timedelta(hours=25)


def has_room(limit_id: int) -> bool:
    """Return whether a limit in which a claim found no room has some, with all summed up that happened meanwhile."""
    ((room,),) = ask_prepared("SELECT wms_sum_up_limit(%s)", limit_id)
    return bool(room)


def sum_up() -> None:
    """Sum up what happened to the jobs of each limit, so that it stays little for those who need it at once.

    So is the CPU time of hours that count no more: nobody is sent for jobs of a quota that looks used up, so that no
    claim would ever find that it is not.
    """
    # First: of a limit that is gone nothing can be summed up, and that would stop the sums of all others.
    LimitEvent.objects.exclude(limit__in=Limit.objects.all()).delete()
    of_events = LimitEvent.objects.order_by().values_list("limit", flat=True)
    of_hours = LimitHour.objects.filter(began_at__lte=DatabaseNow() - HOUR_COUNTS).order_by()
    for limit_id in sorted(of_events.union(of_hours.values_list("limit", flat=True))):
        has_room(limit_id)
