"""Background work that is asked for often, kept from taking more than a part of the time."""

from collections.abc import Callable
from time import monotonic


class Pace:
    """Lets work be done no more often than its duration allows.

    Args:
        part: of the time that it may take, in (0, 1].
        clock: in seconds, never going back.
    """

    def __init__(self, *, part: float, clock: Callable[[], float] = monotonic) -> None:
        self._part = part
        self._clock = clock
        self._due_at = clock()

    def run(self, work: Callable[[], object]) -> None:
        """Do the work, unless it was done so lately that it would take more than its part; then leave it."""
        begun = self._clock()
        if begun < self._due_at:
            return
        work()
        self._due_at = begun + (self._clock() - begun) / self._part
