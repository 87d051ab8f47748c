"""The heartbeat: a thread that renews the lease in every phase of a job and receives commands."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable

from pilots.agent.base import log
from pilots.agent.job.identity import Streams
from pilots.agent.server.api import Server
from pilots.agent.server.http import RefusedError, UnreachableError
from pilots.agent.server.json_fields import MalformedAnswerError
from pilots.agent.server.lease import Lease, LeaseEndedError
from wms.wire.backoff import Backoff
from wms.wire.protocol import MAX_NAME, RUNNING, Tails, Usage

#: Last lines of standard output and error each that reports carry, at most TAIL_BYTES.
TAIL_LINES = 20
TAIL_BYTES = 4096
#: Bytes that are read at once, and at most, for the last lines: a progress bar may write megabytes without a newline.
_BLOCK_BYTES, _LONGEST_SEARCH_BYTES = 64 * 1024, 16 * 1024**2
#: Bytes of UTF-8 that do not begin a character.
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))
#: Longest wait in seconds after a heartbeat that failed.
RETRY_LIMIT_S = 30.0
#: Bounds in seconds of the time limit of one call.
LONGEST_CALL_S = 15.0
_SHORTEST_CALL_S = 5.0


class Heartbeat:
    """Heartbeats from the match until the final report; ``with`` starts and stops the thread."""

    def __init__(self, server: Server, lease: Lease, *, every_s: float, usage: Callable[[], Usage]) -> None:
        """Prepare the thread.

        Args:
            server: the heartbeats go to.
            lease: to renew.
            every_s: seconds between two heartbeats.
            usage: returns the usage of the payload so far; called in the thread.
        """
        self._server = server
        self._lease = lease
        self._every_s = every_s
        self._usage = usage
        self._streams: Streams | None = None
        #: Last lines of a payload that has ended, and those that the server has: of an attempt that begins none.
        self._final = self._reported = Tails("", "")
        #: Warning for the owner of the job; assigned from the main thread.
        self._warning: str | None = None
        self._stopped = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        self._stopped.set()
        self._hurry.set()

    def watch_output(self, streams: Streams) -> None:
        """Report the last lines of these files from now on."""
        self._streams = streams

    def end_output(self) -> None:
        """Report the last lines as they are now; the payload has ended."""
        self._warning = None
        if self._streams is not None:
            self._final, self._streams = tails_of(self._streams), None

    def unreported_tails(self) -> Tails:
        """Return the last lines that the server does not have; call it under the lease's ``reporting``."""
        return _changed(self._present_tails(), since=self._reported)

    def tails_reported(self, tails: Tails) -> None:
        """Record that the server has these last lines; call it under the lease's ``reporting``."""
        self._reported = Tails(**{**self._reported._asdict(), **tails.as_record()})

    def warn(self, sentence: str) -> None:
        """Report that the payload is near a limit; a warning that is still unreported is replaced."""
        self._warning = sentence
        self._hurry.set()

    def _run(self) -> None:
        trouble = Backoff(first_s=min(1.0, self._every_s), limit_s=min(self._every_s, RETRY_LIMIT_S))
        delay_s = self._every_s
        while not self._stopped.is_set():
            self._hurry.wait(delay_s)
            self._hurry.clear()
            if self._stopped.is_set():
                break
            try:
                self._beat()
            except LeaseEndedError as error:
                if not self._stopped.is_set():
                    self._lease.end(str(error))
                break
            except (UnreachableError, RefusedError, MalformedAnswerError) as error:
                delay_s = trouble.next_s()
                left_s = self._lease.seconds_until_stop()
                log.event("heartbeat.failed", job=self._lease.job.id, error=error, stop_in_s=left_s)
            except Exception as error:  # noqa: BLE001 - a thread that dies silently would lose the job
                delay_s = trouble.next_s()
                log.event("agent.fault", error=repr(error), traceback=traceback.format_exc())
            else:
                trouble.reset()
                # Acknowledge at once commands that do not end the payload.
                delay_s = 0.0 if self._lease.to_acknowledge() else self._every_s
        self._server.close()

    def _beat(self) -> None:
        with self._lease.reporting:
            if not self._lease.handed_back:
                self._report()

    def _report(self) -> None:
        tails = self._present_tails() if self._lease.take_peek() else self.unreported_tails()
        carried_out = self._lease.to_acknowledge()
        timeout_s = max(_SHORTEST_CALL_S, min(LONGEST_CALL_S, self._every_s))
        self._server.heartbeat(
            self._lease, usage=self._usage(), tails=tails, acknowledged=carried_out, timeout_s=timeout_s
        )
        self.tails_reported(tails)
        self._lease.acknowledged(carried_out)
        self._report_warning()

    def _report_warning(self) -> None:
        warning = self._warning
        if warning is None:
            return
        try:
            self._server.report_status(self._lease, status=RUNNING, minor=warning[:MAX_NAME])
        except RefusedError as error:  # the job is no longer Running
            log.event("warning.refused", job=self._lease.job.id, error=error)
        if self._warning == warning:
            self._warning = None

    def _present_tails(self) -> Tails:
        streams = self._streams
        return self._final if streams is None else tails_of(streams)


def _changed(present: Tails, *, since: Tails) -> Tails:
    """Return the lines that differ from those before."""
    return Tails(*(text if text != before else None for text, before in zip(present, since)))


def tails_of(streams: Streams) -> Tails:
    """Return the last lines of standard output and error; when both go to one file, they are those of the output."""
    return Tails(tail_of(streams.stdout), "" if streams.stderr == streams.stdout else tail_of(streams.stderr))


def tail_of(descriptor: int) -> str:
    """Return the last lines of a file as a terminal shows them, as text without NUL; at most TAIL_LINES and TAIL_BYTES.

    What a carriage return lets the rest of its line overwrite, as progress bars do, is left out.
    """
    try:
        content = b"\n".join(_last_lines(descriptor))
    except OSError:
        return ""
    if len(content) > TAIL_BYTES:
        content = content[-TAIL_BYTES:].lstrip(_CONTINUATION_BYTES)
    return content.decode("utf-8", "replace").replace("\0", "")


def _last_lines(descriptor: int) -> list[bytes]:
    """Return the last TAIL_LINES lines of a file, and an empty one after a final newline."""
    lines: list[bytes] = []
    at = size = os.fstat(descriptor).st_size
    rest = b""  # of the line whose beginning is not read yet
    while at > max(0, size - _LONGEST_SEARCH_BYTES) and len(lines) <= TAIL_LINES and len(rest) < TAIL_BYTES:
        start = max(0, at - _BLOCK_BYTES)
        rest, *complete = (os.pread(descriptor, at - start, start) + rest).split(b"\n")
        lines = [*map(_shown, complete), *lines]
        at = start
        # The CR is kept, so that what is before it in the line counts as overwritten.
        rest = b"\r" + _shown(rest) if b"\r" in rest.rstrip(b"\r") else rest
    lines = [_shown(rest), *lines]
    return lines[-TAIL_LINES - (lines[-1] == b"") :]


def _shown(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]
