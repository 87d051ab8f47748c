"""Pacing of frequent background work, to a share of the time."""

from collections.abc import Callable
from time import monotonic


class Pace:
    """Limits work to a share of the time.

    Args:
        part: share of the time that the work may take, in (0, 1].
        clock: monotonic, in seconds.
    """

    def __init__(self, *, part: float, clock: Callable[[], float] = monotonic) -> None:
        self._part = part
        self._clock = clock
        self._due_at = clock()

    def run(self, work: Callable[[], object]) -> None:
        """Do the work, unless its last run was so recent that it would exceed its share; then skip it."""
        begun = self._clock()
        if begun < self._due_at:
            return
        work()
        self._due_at = begun + (self._clock() - begun) / self._part
