"""Calls to the server that are made again until they are answered, with growing delays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.server.http import UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError

Result = TypeVar("Result")

_FIRST_S = 0.2
_LIMIT_S = 20.0
#: The page of a maintenance may ask for an hour: a job's last report would never be sent.
_LONGEST_ASKED_S = 60.0
#: Not everything that interrupts rings: files do not.
_LOOK_EVERY_S = 10.0


class Backoff:
    """Delays that double from *first_s* up to *limit_s*, each stretched by a random part of up to one half."""

    def __init__(self, *, first_s: float, limit_s: float, chance: random.Random | None = None) -> None:
        self._first_s = first_s
        self._limit_s = limit_s
        self._tries = 0
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing

    def next_s(self, *, at_least_s: float | None = None) -> float:
        """Return the next delay in seconds.

        Args:
            at_least_s: what the server asked for (Retry-After); doubled and stretched in the same way, and never cut.
        """
        first_s = self._first_s if at_least_s is None else at_least_s
        delay_s = max(first_s, min(first_s * 2.0 ** min(self._tries, 30), self._limit_s))
        self._tries += 1
        return delay_s * (1.0 + self._chance.random() / 2)

    def reset(self) -> None:
        """Begin again with the shortest delay: the last try did well."""
        self._tries = 0


class InterruptedCallError(Exception):
    """Something more important than the call came up."""


class Retry:
    """Tries again, with growing delays, what the network or the server spoilt."""

    def __init__(self, wakeup: WakeupPipe) -> None:
        self._wakeup = wakeup

    def call(
        self,
        what: str,
        attempt: Callable[[], Result],
        *,
        until: Callable[[], float],
        interrupted: Callable[[], object] = lambda: None,
    ) -> Result:
        """Return what *attempt* returns.

        Args:
            what: for the log.
            attempt: one try.
            until: when to give up, by the pilot's clock; asked again after each try, for a lease may be renewed.
            interrupted: true when the caller has something better to do; looked at between tries, at
                least each 10 s.

        Raises:
            UnreachableError, MalformedAnswerError: no try was answered in time.
            InterruptedCallError: see above.
            Exception: what *attempt* raises else.
        """
        backoff = Backoff(first_s=_FIRST_S, limit_s=_LIMIT_S)
        while True:
            try:
                return attempt()
            except (UnreachableError, MalformedAnswerError) as error:
                asked_s = (isinstance(error, UnreachableError) and error.retry_after_s) or _FIRST_S
                again_at = monotonic() + backoff.next_s(at_least_s=min(asked_s, _LONGEST_ASKED_S))
                if again_at > until():
                    raise
                log.event("call.failed", call=what, error=error, again_in_s=again_at - monotonic())
            while (left_s := again_at - monotonic()) > 0 and not interrupted():
                self._wakeup.wait(min(left_s, _LOOK_EVERY_S))
            if interrupted():
                raise InterruptedCallError(what)
