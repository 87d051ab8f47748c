"""When and where a job that was given back may be matched again: a growing delay, and other places first."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What a queued job says about its next match; times are by the database's clock.

    Args:
        not_before: no pilot gets the job before.
        avoided_until: from then on the places below may have it too; None: no place is avoided.
        avoided_queue_ids: configured queues that gave it back, the latest last; empty: no place is avoided.
        avoided_host: of those queues only this host is avoided; None: the whole queues are.
    """

    not_before: datetime
    avoided_until: datetime | None = None
    avoided_queue_ids: tuple[int, ...] = ()
    avoided_host: str | None = None


def delay_s(*, reschedules: int, first_s: int, longest_s: int) -> int:
    """Return how long a job waits after it was given back, in seconds.

    Args:
        reschedules: how often it was rescheduled before, ≥ 0.
        first_s: the delay of the first time; it doubles with each further one.
        longest_s: the limit of the delay.
    """
    # 2**30 delays of a second are 34 years: nobody computes with larger numbers.
    doubled: int = first_s << min(reschedules, 30)
    return min(longest_s, doubled)
