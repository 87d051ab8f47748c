"""The upload of the pilot's log to the server, while the pilot runs."""

from __future__ import annotations

from pilots.agent.base import linux
from pilots.agent.base.clock import monotonic
from pilots.agent.base.log import Journal, event, journal
from pilots.agent.server.api import Server
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from wms.wire.protocol import MAX_LOG_CHUNK

#: Seconds between two uploads.
PERIOD_S = 60.0
#: Seconds of one upload, for which jobs and the end of the pilot wait; the rest follows with the next upload, if any.
_PATIENCE_S = 5.0


class LogUpload:
    """The upload of a journal; for the pilot's main process only."""

    def __init__(self, server: Server, *, lines: Journal = journal, period_s: float = PERIOD_S) -> None:
        """Send nothing yet.

        Args:
            server: at which the pilot is registered before the first upload.
            lines: to upload.
            period_s: seconds between two uploads.
        """
        self._server = server
        self._lines = lines
        self._period_s = period_s
        self._due_at = monotonic()
        self._sent = 0
        #: Characters that the server has from an earlier pilot with this token; None: not fetched yet.
        self._before: int | None = None
        self._over = False

    def send_if_due(self) -> None:
        """Send new lines if the period is over; errors are ignored until the next time."""
        if monotonic() >= self._due_at:
            self.send_rest()
            self._due_at = monotonic() + self._period_s

    def send_rest(self) -> None:
        """Send new lines now, for _PATIENCE_S at most."""
        give_up_at = monotonic() + _PATIENCE_S
        try:
            while not self._over and monotonic() < give_up_at and self._send_chunk():
                pass
        except (UnreachableError, MalformedAnswerError):
            pass  # not logged: each line would make the log longer
        except RefusedError as error:
            self._over = True
            event("log.not_shipped", error=error)

    def _send_chunk(self) -> bool:
        """Send one chunk; return whether there was one."""
        chunk = self._lines.read(self._sent, most=MAX_LOG_CHUNK)
        if not chunk:
            return False
        if self._before is None:
            # A pilot started by hand may run twice with one token; its second log follows the first.
            self._before = self._server.log(offset=0, text="", timeout_s=_PATIENCE_S)
        self._server.log(offset=self._before + self._sent, text=chunk, timeout_s=_PATIENCE_S)
        self._sent += len(chunk)
        if self._lines.descriptor is not None:
            linux.give_back(self._lines.descriptor, before=self._sent)
        return True
