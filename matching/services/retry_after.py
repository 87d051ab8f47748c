"""Retry-After of empty answers: the time until a pilot that got no job may request again (ADR 56)."""

from random import Random
from threading import Lock
from typing import Final

from django.conf import settings

from matching.services.offers import PilotBinding, binding_of
from wms.kernel.memo import RecentlyUsed

#: Empty answers a second that one web process gives while its pilots return soon, for each likelihood of work.
UNHURRIED_PER_S: Final = 40.0
#: Seconds of wait for which the rate rises by UNHURRIED_PER_S: a process to which more pilots come than to others lets
#: them wait a little longer, instead of longer and longer.
RISES_EACH_S: Final = 100.0
LONGEST_S: Final = 300.0
#: Spread of the longest wait, as a fraction, so that pilots answered together do not return together.
SPREAD: Final = 0.5
#: Seconds after a match during which work is likely for pilots with the same binding.
LIKELY_FOR_S: Final = 60.0
#: Bindings kept in memory.
MOST_BINDINGS: Final = 20_000


class RetryAfter:
    """Time slots at a steady rate: each empty answer gets the next free slot, so that pilots return evenly.

    The wait is the number of pilots that have a slot, divided by the rate; the next one to return gets a new job. Each
    process has a schedule of its own: pilots are spread over all processes.
    """

    def __init__(self) -> None:
        #: The last slot that is taken.
        self._last_at = 0.0
        self._lock = Lock()

    def next_s(self, *, at_least_s: float, now: float, chance: Random) -> int:
        """Take the next free slot and return the seconds until then.

        Args:
            at_least_s: wait while few pilots request.
            now: seconds of a monotonic clock.
            chance: random numbers for the spread.
        """
        longest_s = max(LONGEST_S, at_least_s)
        with self._lock:
            backlog_s = max(0.0, self._last_at - now)
            per_s = UNHURRIED_PER_S * (1 + backlog_s / RISES_EACH_S)
            wait_s = max(at_least_s, backlog_s + 1 / per_s)
            self._last_at = now + min(wait_s, longest_s)
        if wait_s > longest_s:
            wait_s = max(at_least_s, longest_s * (1 - SPREAD * chance.random()))
        # Whole seconds, rounded up or down so that the mean is right.
        return int(wait_s + chance.random())


class LikelyWork:
    """Bindings of pilots to which this process gave jobs in the last LIKELY_FOR_S; threads share it.

    Pilots of the same VO, owner and queue are given the same jobs.
    """

    def __init__(self) -> None:
        self._matched_at: RecentlyUsed[PilotBinding, float] = RecentlyUsed(most=MOST_BINDINGS, unused_s=LIKELY_FOR_S)

    def note(self, binding: PilotBinding, *, now: float) -> None:
        """Record a match of a pilot with this binding, at this moment of a monotonic clock."""
        self._matched_at.keep(binding, now)

    def is_for(self, binding: PilotBinding, *, now: float) -> bool:
        """Return whether work is likely for pilots with this binding."""
        matched_at = self._matched_at.get(binding)
        return matched_at is not None and now - matched_at < LIKELY_FOR_S


#: Those of this process. Pilots for which work is likely do not queue behind the others.
retry_after: Final = RetryAfter()
retry_after_likely: Final = RetryAfter()
likely_work: Final = LikelyWork()


def seconds_to_wait(pilot_id: int, *, now: float, chance: Random) -> int:
    """Count one empty answer and return the seconds that its pilot is to wait.

    Args:
        pilot_id: primary key of the pilot.
        now, chance: as for ``RetryAfter.next_s``.
    """
    is_likely = likely_work.is_for(binding_of(pilot_id), now=now)
    schedule = retry_after_likely if is_likely else retry_after
    return schedule.next_s(at_least_s=settings.WMS_MATCH_RETRY_AFTER_S, now=now, chance=chance)
