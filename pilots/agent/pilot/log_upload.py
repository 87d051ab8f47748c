"""Sends the pilot's log to the server while it runs, so that nobody has to look for it on a worker node."""

from __future__ import annotations

from pilots.agent.base import linux
from pilots.agent.base.clock import monotonic
from pilots.agent.base.log import Journal, event, journal
from pilots.agent.server.api import Server
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError

PERIOD_S = 60.0
#: Of one request.
CHUNK_BYTES = 64 * 1024
#: Neither the next job nor the end of the pilot waits longer for its log; what is left goes the next time, or never.
_PATIENCE_S = 5.0


class LogUpload:
    """What of a journal has been sent; used by the one process that speaks for the pilot."""

    def __init__(self, server: Server, *, lines: Journal = journal, period_s: float = PERIOD_S) -> None:
        """Send nothing yet.

        Args:
            server: that knows the pilot by the time of the first call.
            lines: what to send.
            period_s: between two times.
        """
        self._server = server
        self._lines = lines
        self._period_s = period_s
        self._due_at = monotonic()
        self._sent = 0
        #: Characters that the server has of processes before this one; None: not asked yet.
        self._before: int | None = None
        self._over = False

    def ship_if_due(self) -> None:
        """Send what is new, if the last time is long enough ago; any trouble waits for the next time."""
        if monotonic() >= self._due_at:
            self.ship_rest()
            self._due_at = monotonic() + self._period_s

    def ship_rest(self) -> None:
        """Send what is new now, as far as that goes quickly; for the end, when there is no next time."""
        give_up_at = monotonic() + _PATIENCE_S
        try:
            while not self._over and monotonic() < give_up_at and self._ship_chunk():
                pass
        except (UnreachableError, MalformedAnswerError):
            pass  # said already where it matters; a line for each would only make the log longer
        except RefusedError as error:
            self._over = True
            event("log.not_shipped", error=error)

    def _ship_chunk(self) -> bool:
        """Send one chunk; return whether there was one."""
        chunk = self._lines.read(self._sent, most=CHUNK_BYTES)
        if not chunk:
            return False
        if self._before is None:
            # A pilot made by hand may be run twice with one token: its second log goes behind the first.
            self._before = self._server.log(offset=0, text="", timeout_s=_PATIENCE_S)
        self._server.log(offset=self._before + self._sent, text=chunk, timeout_s=_PATIENCE_S)
        self._sent += len(chunk)
        if self._lines.descriptor is not None:
            linux.give_back(self._lines.descriptor, before=self._sent)
        return True
