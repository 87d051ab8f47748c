"""Retry-After of empty answers: the time until a pilot that got no job may request again."""

from math import exp
from random import Random
from threading import Lock

#: Empty answers a second that one web process gives without slowing pilots down; a hundredth of its capacity.
UNHURRIED_PER_S = 20.0
#: Seconds over which the rate is averaged.
LOOKED_BACK_S = 10.0
LONGEST_S = 120.0
#: Spread of the wait, as a fraction, so that pilots answered together do not return together.
SPREAD = 0.2


class RetryAfter:
    """Wait times that grow with the rate of empty answers; the next pilot that requests gets a new job.

    Each process uses its own rate: pilots are spread over all processes.
    """

    def __init__(self) -> None:
        self._rate_per_s = 0.0
        self._requested_at = 0.0
        self._lock = Lock()

    def next_s(self, *, at_least_s: float, now: float, chance: Random) -> int:
        """Count one empty answer and return the seconds that its pilot is to wait.

        Args:
            at_least_s: wait while few pilots request.
            now: seconds of a monotonic clock.
            chance: random numbers for the spread.
        """
        with self._lock:
            elapsed_s = max(0.0, now - self._requested_at)
            self._rate_per_s = self._rate_per_s * exp(-elapsed_s / LOOKED_BACK_S) + 1 / LOOKED_BACK_S
            self._requested_at = now
            crowding = self._rate_per_s / UNHURRIED_PER_S
        if crowding <= 1:
            return round(at_least_s)
        # NB: the square, because the rate falls as pilots wait: it settles at the geometric mean of the two.
        wait_s = max(at_least_s, min(LONGEST_S, at_least_s * crowding * crowding))
        return round(wait_s * (1 + SPREAD * chance.random()))


#: The instance of this process.
retry_after = RetryAfter()
