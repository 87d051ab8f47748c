"""Calls that are made again until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import Bell
from pilots.agent.server.backoff import Backoff
from pilots.agent.server.http import UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError

Result = TypeVar("Result")

_FIRST_S = 0.2
_LIMIT_S = 20.0
#: The page of a maintenance may ask for an hour: a job's last report would never be sent.
_LONGEST_ASKED_S = 60.0
#: Not everything that interrupts rings: files do not.
_LOOK_EVERY_S = 10.0


class InterruptedCallError(Exception):
    """Something more important than the call came up."""


class Persistence:
    """Tries again, with growing delays, what the network or the server spoilt."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell

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
                self._bell.wait(min(left_s, _LOOK_EVERY_S))
            if interrupted():
                raise InterruptedCallError(what)
