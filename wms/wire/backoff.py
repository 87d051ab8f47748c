"""Delays between the attempts of a request."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double from *first_s* up to *limit_s*, each prolonged by a random part of up to one half."""

    def __init__(self, *, first_s: float, limit_s: float, chance: random.Random | None = None) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._tries = 0
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing

    def next_s(self, *, at_least_s: float | None = None) -> float:
        """Return the next delay in seconds.

        Args:
            at_least_s: Retry-After of the server; doubled and prolonged in the same way, never shortened.
        """
        first_s = self._first_s if at_least_s is None else at_least_s
        delay_s = max(first_s, min(first_s * 2.0 ** min(self._tries, 30), self._limit_s))
        self._tries += 1
        return delay_s * (1.0 + self._chance.random() / 2)

    def reset(self) -> None:
        """Start again with the shortest delay, after a success."""
        self._tries = 0
