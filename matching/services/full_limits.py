"""Limits that this process recently found full: draws leave out their jobs where there are others."""

from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Final

#: Seconds for which a limit is taken to be full: the age that the index may have too (docs/architecture.md, The claim).
REMEMBERED_S: Final = 1.0


class FullLimits:
    """Full limits, each with the time until which it is taken to be full; threads share it.

    A claim refused by a full limit takes as long as a successful one. So each process makes about one a second and
    limit. Pilots that would get nothing else claim anyway, so that the database decides.

    Args:
        clock: monotonic, in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._until: dict[int, float] = {}
        self._lock = Lock()

    def note(self, limit_id: int, *, delay_s: float | None = None) -> None:
        """Record that a claim found the limit full.

        Args:
            limit_id: primary key of the limit.
            delay_s: seconds between its matches, after which it opens if only the delay closed it; None: no delay.
        """
        with self._lock:
            self._until[limit_id] = self._clock() + min(REMEMBERED_S, delay_s or REMEMBERED_S)

    def recent(self) -> frozenset[int]:
        """Return the limits that are taken to be full now."""
        if not self._until:
            return frozenset()
        now = self._clock()
        with self._lock:
            self._until = {limit: until for limit, until in self._until.items() if until >= now}
            return frozenset(self._until)


#: The instance of this process.
full_limits = FullLimits()
