"""Retries: calls to the server are repeated with growing delays until they are answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pilots.agent.base import log
from pilots.agent.base.clock import monotonic
from pilots.agent.base.wakeup import WakeupPipe
from pilots.agent.server.http import UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from wms.wire.backoff import Backoff

Result = TypeVar("Result")

#: Seconds of the first delay and of the longest one.
_FIRST_S = 0.2
_LIMIT_S = 20.0
#: Longest Retry-After in seconds that is followed: a maintenance page may name an hour, too long for a final report.
_MAX_RETRY_AFTER_S = 60.0
#: Seconds between two checks for an interruption: a drain file, for one, does not wake the main thread.
_LOOK_EVERY_S = 10.0


class InterruptedCallError(Exception):
    """The call was given up because *interrupted* returned true."""


class Retry:
    """Repetition of calls that fail because of the network or the server."""

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
            what: name of the call, for the log.
            attempt: one try.
            until: returns the monotonic time of giving up; called after each try, for a lease may be renewed.
            interrupted: returns true when the caller must stop; called between tries, at least every 10 s.

        Raises:
            UnreachableError, MalformedAnswerError: no try was answered in time.
            InterruptedCallError: *interrupted* returned true.
            Exception: any other error of *attempt*.
        """
        backoff = Backoff(first_s=_FIRST_S, limit_s=_LIMIT_S)
        while True:
            try:
                return attempt()
            except (UnreachableError, MalformedAnswerError) as error:
                retry_after_s = (isinstance(error, UnreachableError) and error.retry_after_s) or _FIRST_S
                again_at = monotonic() + backoff.next_s(at_least_s=min(retry_after_s, _MAX_RETRY_AFTER_S))
                if again_at > until():
                    raise
                log.event("call.failed", call=what, error=error, again_in_s=again_at - monotonic())
            while (left_s := again_at - monotonic()) > 0 and not interrupted():
                self._wakeup.wait(min(left_s, _LOOK_EVERY_S))
            if interrupted():
                raise InterruptedCallError(what)
