"""How long pilots that got nothing are told to wait."""

from math import exp
from random import Random
from threading import Lock

#: Empty answers a second that one web process gives as often as pilots like; a hundredth of what it could.
UNHURRIED_PER_S = 20.0
#: The rate is that of about the last so many seconds.
LOOKED_BACK_S = 10.0
LONGEST_S = 120.0
#: Pilots that were told at the same moment do not come back at the same moment.
SPREAD = 0.2


class RetryAfter:
    """The more pilots come for nothing, the longer each is told to wait; a new job is found by the next that comes.

    Each process goes by what it sees itself: pilots are spread over all.
    """

    def __init__(self) -> None:
        self._rate_per_s = 0.0
        self._asked_at = 0.0
        self._lock = Lock()

    def next_s(self, *, at_least_s: float, now: float, chance: Random) -> int:
        """Count one empty answer and return the seconds that its pilot is to wait.

        Args:
            at_least_s: when few ask.
            now: by a clock that never goes back, in seconds.
            chance: of the spread.
        """
        with self._lock:
            elapsed_s = max(0.0, now - self._asked_at)
            self._rate_per_s = self._rate_per_s * exp(-elapsed_s / LOOKED_BACK_S) + 1 / LOOKED_BACK_S
            self._asked_at = now
            crowding = self._rate_per_s / UNHURRIED_PER_S
        if crowding <= 1:
            return round(at_least_s)
        # NB: the square, for the rate falls as pilots obey: in the end it is that of the unhurried and the asked.
        wait_s = max(at_least_s, min(LONGEST_S, at_least_s * crowding * crowding))
        return round(wait_s * (1 + SPREAD * chance.random()))


#: Of this process.
retry_after = RetryAfter()
