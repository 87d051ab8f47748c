"""Waits between the attempts of one request."""

from __future__ import annotations

import time

from .wire.backoff import Backoff

_FIRST_S = 0.2
_LONGEST_S = 10.0


class Retries:
    """The waits between the attempts of one request: they double up to 10 s, and end after a total time.

    Args:
        total_s: no attempt begins later than this many seconds after the first, or after the last progress.
    """

    def __init__(self, *, total_s: float) -> None:
        self._total_s = total_s
        self._backoff = Backoff(first_s=_FIRST_S, limit_s=_LONGEST_S)
        self.progressed()

    def progressed(self) -> None:
        """Begin anew, after part of an answer has arrived."""
        self._until = time.monotonic() + self._total_s
        self._backoff.reset()

    def wait(self, named_s: float | None = None) -> bool:
        """Sleep until the next attempt; return False at once if that would be too late.

        Args:
            named_s: seconds of Retry-After in the answer; None: not given.
        """
        pause_s = self._backoff.next_s() if named_s is None else named_s
        if time.monotonic() + pause_s > self._until:
            return False
        time.sleep(pause_s)
        return True
