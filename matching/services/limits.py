"""The counters of limits, of which claims see to what they can without waiting (DESIGN §3.6; ``sql/limits.sql``)."""

from taskqueues.models import Limit, LimitEvent
from wms.kernel.db import ask_prepared


def has_room(limit_id: int) -> bool:
    """Return whether a limit in which a claim found no room has some, with all summed up that happened meanwhile."""
    ((room,),) = ask_prepared("SELECT wms_sum_up_limit(%s)", limit_id)
    return bool(room)


def sum_up() -> None:
    """Sum up what happened to the jobs of each limit, so that it stays little for those who need it at once."""
    for limit_id in LimitEvent.objects.order_by("limit").values_list("limit", flat=True).distinct():
        has_room(limit_id)
    LimitEvent.objects.exclude(limit__in=Limit.objects.all()).delete()
