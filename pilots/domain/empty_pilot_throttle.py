"""The throttle of empty pilots: pilots that found no job reduce the number sent to the same batch queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import inf

#: Pilots needed for a decision; fewer set no throttle.
TELLING = 10
#: From this share of empty pilots on, every second pilot is kept back.
HALVED_FROM = 0.5
#: From this share of empty pilots on, all pilots are kept back.
STOPPED_FROM = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyPilotThrottle:
    """The part of the pilots for a batch queue that is sent.

    Args:
        sent_fraction: the part, 0 to 1.
        seen_at: when a pilot there last found no job, in seconds since some moment; the throttle does not apply to task
            queues with jobs since then.
    """

    sent_fraction: float
    seen_at: float


NONE = EmptyPilotThrottle(sent_fraction=1.0, seen_at=-inf)


def empty_match_at(*, matched_at: datetime | None, nothing_at: datetime | None) -> float | None:
    """Return when a pilot found no job, in seconds since the epoch; None: it did not ask, or has had a job."""
    return nothing_at.timestamp() if nothing_at is not None and matched_at is None else None


def throttle_of(found_nothing_at: Sequence[float | None]) -> EmptyPilotThrottle:
    """Return the throttle of a batch queue.

    A rising share of empty pilots first halves, then stops the submission. Only recent pilots count, so the throttle
    ends by itself.

    Args:
        found_nothing_at: of each recent pilot: None if it matched, else when it found no job.
    """
    empty = [at for at in found_nothing_at if at is not None]
    if len(found_nothing_at) < TELLING or len(empty) / len(found_nothing_at) < HALVED_FROM:
        return NONE
    stopped = len(empty) / len(found_nothing_at) >= STOPPED_FROM
    return EmptyPilotThrottle(sent_fraction=0.0 if stopped else 0.5, seen_at=max(empty))
