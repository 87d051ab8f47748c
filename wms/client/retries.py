"""Waits between the attempts of one request."""

from __future__ import annotations

import random
import time
from email.utils import parsedate_to_datetime

_FIRST_S = 0.2
_LONGEST_S = 10.0


class Retries:
    """The waits between the attempts of one request: they double up to 10 s, and end after a total time.

    Args:
        total_s: no attempt begins later than this many seconds after the first, or after the last progress.
    """

    def __init__(self, *, total_s: float) -> None:
        self._total_s = total_s
        self.progressed()

    def progressed(self) -> None:
        """Begin anew, after part of an answer has arrived."""
        self._until = time.monotonic() + self._total_s
        self._next_s = _FIRST_S

    def wait(self, retry_after: str | None = None) -> bool:
        """Sleep until the next attempt; return False at once if that would be too late.

        Args:
            retry_after: the header of the answer: seconds, or a date of HTTP.
        """
        named_s = _seconds(retry_after)
        # Random, so that clients of a server that has restarted do not return all at once.
        pause_s = self._next_s * random.uniform(0.5, 1.0) if named_s is None else named_s  # noqa: S311 - no secret
        self._next_s = min(2 * self._next_s, _LONGEST_S)
        if time.monotonic() + pause_s > self._until:
            return False
        time.sleep(pause_s)
        return True


def _seconds(retry_after: str | None) -> float | None:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (TypeError, ValueError, IndexError):  # no date; Python 3.9 raises the others
        return None
