"""What pilots that found no job say about the next ones to be sent to the same batch queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

#: Fewer pilots say nothing yet.
TELLING = 10
#: From this share of empty pilots on every second one is kept back …
HALVED_FROM = 0.5
#: … and from this one on all.
STOPPED_FROM = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyPilotThrottle:
    """How many of the pilots for a batch queue are sent all the same.

    Args:
        kept: part of them, 0 to 1.
        seen_at: when a pilot there last found nothing, in seconds since some moment; what came to wait after that is
            none of its business.
    """

    kept: float
    seen_at: float


NONE = EmptyPilotThrottle(kept=1.0, seen_at=-inf)


def in_vain_at(*, matched_at: datetime | None, nothing_at: datetime | None) -> float | None:
    """Return when a pilot has asked in vain, in seconds since the epoch; None: it did not, or has had a job."""
    return nothing_at.timestamp() if nothing_at is not None and matched_at is None else None


def throttle_of(found_nothing_at: Sequence[float | None]) -> EmptyPilotThrottle:
    """Return the throttle at a batch queue.

    A rising share of pilots that found nothing halves, then stops the submission. Who looks at the pilots of the last
    while only sees it open again by itself.

    Args:
        found_nothing_at: of each pilot that has lately either matched (None) or, never having had a job, asked in vain.
    """
    empty = [at for at in found_nothing_at if at is not None]
    if len(found_nothing_at) < TELLING or len(empty) / len(found_nothing_at) < HALVED_FROM:
        return NONE
    stopped = len(empty) / len(found_nothing_at) >= STOPPED_FROM
    return EmptyPilotThrottle(kept=0.0 if stopped else 0.5, seen_at=max(empty))
