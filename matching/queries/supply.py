"""Numbers of limits, throttles and computing elements, which no stream of changes has, for the ETags of open pages."""

from datetime import datetime
from hashlib import sha256

from pilots.models import CEHealth
from resources.models import ThrottleState
from taskqueues.queries import limits_on_matches, with_counts


def supply_digest(*, now: datetime) -> str:
    """Return a text that is another one whenever a limit, a throttle or a computing element has other numbers.

    Three statements, which read as many rows as there are of these.

    Args:
        now: by the database's clock; what is advertised expires.
    """
    counted = [vars(limit) for limit in with_counts(limits_on_matches())]
    throttles = ThrottleState.objects.order_by("pk").values_list("pk", "version", "matched", "room", "expires_at")
    health = CEHealth.objects.order_by("pk").values_list("pk", "failures", "trouble", "free_slots", "send_after")
    numbers = (
        [tuple(limit[name] for name in ("id", "held", "used_s", "free_at")) for limit in counted],
        [(*throttle, expires_at <= now) for *throttle, expires_at in throttles],
        [(*of_ce, send_after is not None and send_after > now) for *of_ce, send_after in health],
    )
    return sha256(repr(numbers).encode()).hexdigest()
