"""Incoming bodies: read as they arrive, dropped when too slow, without a thread of their own."""

import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from io import BytesIO
from tempfile import SpooledTemporaryFile
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Final, NoReturn, Protocol, cast

from django.conf import settings
from django.core.exceptions import RequestDataTooBig

if TYPE_CHECKING:
    from granian._granian import RSGIHTTPProtocol as HTTPProtocol

_logger = logging.getLogger(__name__)

#: Bytes of a body kept in memory; larger ones are kept on disk.
_IN_MEMORY_BYTES: Final = 1024 * 1024
#: Seconds; a timer costs more than a shorter pause would save.
_LEAST_PAUSE_S: Final = 0.02
_LOOK_EVERY_S: Final = 0.5
#: Seconds between two log lines, so that a flood of requests does not flood the log.
_SAID_EVERY_S: Final = 10.0


class BodyFailure(Enum):
    """The reason why a body is missing; the value completes a log line."""

    LATE = "late"
    CROWDED_OUT = "crowded out"
    STOPPED = "stopped"
    BROKEN_OFF = "broken off"
    NO_ROOM = "without room on the disk"


#: Called once, with the incoming body, and either its content or the failure.
Then = Callable[["IncomingBody", IO[bytes] | BodyFailure], None]


class _Future(Protocol):
    """granian's future of received bytes; outside of Python's garbage collection, so used ones must not be kept."""

    def add_done_callback(self, callback: Callable[["_Future"], None]) -> None: ...
    def cancel(self) -> None: ...
    def cancelled(self) -> bool: ...
    def done(self) -> bool: ...
    def result(self) -> bytes: ...


def is_late(waited_s: float, *, moved_bytes: int) -> bool:
    """Return whether a client has sent, or read, too few bytes for the time."""
    allowed_s: float = settings.WMS_WEB_BODY_S + moved_bytes / settings.WMS_WEB_BODY_BYTES_PER_S
    return waited_s > allowed_s


class UnreadBody:
    """The body of a request that is refused by its headers: reading it fails."""

    def read(self, _size: int = -1) -> NoReturn:
        """Raise.

        Raises:
            RequestDataTooBig: always.
        """
        raise RequestDataTooBig(
            "The body is larger than this address accepts, or than is read before its sender is authenticated."
        )

    readline = read


class IncomingBody:
    """A body that is still arriving."""

    def __init__(self, protocol: "HTTPProtocol", then: Then) -> None:
        self._protocol = protocol
        self._then = then
        self._future: _Future | None = None
        self._flaw: BodyFailure | None = None
        self._begun_s = monotonic()
        self.received_bytes = 0

    def begin(self) -> None:
        """Start reading."""
        raise NotImplementedError

    def is_late(self) -> bool:
        """Return whether it arrives too slowly."""
        return is_late(monotonic() - self._begun_s, moved_bytes=self.received_bytes)

    def drop(self, flaw: BodyFailure) -> None:
        """Stop reading it, unless it is complete."""
        self._flaw = flaw
        future = self._future
        if future is not None:
            future.cancel()  # which calls its callback

    def _wait(self, future: _Future) -> None:
        self._future = future
        if self._flaw is not None:  # dropped before there was a future to cancel
            future.cancel()

    def _chunk(self, future: _Future) -> bytes | None:
        """Return the received bytes; None if none will come, after calling ``then``."""
        self._future = None
        if future.cancelled():
            self._then(self, self._flaw or BodyFailure.BROKEN_OFF)
            return None
        try:
            return future.result()
        except RuntimeError:  # granian's connection errors
            self._then(self, BodyFailure.BROKEN_OFF)
            return None


class ShortBody(IncomingBody):
    """A body read in one piece."""

    def begin(self) -> None:
        """Start reading."""
        future = cast("_Future", self._protocol())
        self._wait(future)
        future.add_done_callback(self._end)

    def _end(self, future: _Future) -> None:
        body = self._chunk(future)
        if body is not None:
            self._then(self, BytesIO(body))


class LongBody(IncomingBody):
    """A body of known length, read piece by piece.

    Args:
        length_bytes: of the whole body.
        bytes_per_s: returns the current limit of its rate; None: no limit. A pause of the reader slows the sender
            down.
    """

    def __init__(
        self, protocol: "HTTPProtocol", then: Then, *, length_bytes: int, bytes_per_s: Callable[[], float] | None
    ) -> None:
        super().__init__(protocol, then)
        self._length_bytes = length_bytes
        self._bytes_per_s = bytes_per_s
        #: Time by which the received bytes are due at that rate.
        self._due_s = self._begun_s
        self._file = cast("IO[bytes]", SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 - the reader closes it

    def begin(self) -> None:
        """Start reading."""
        self._next_piece: Callable[[], _Future] = self._protocol.__aiter__().__anext__
        self._go_on()

    def _go_on(self, future: _Future | None = None) -> None:
        # A loop: if each available piece were taken by a recursive call, a long body would exhaust the stack.
        while future is None or self._takes(future):
            if future is not None and (pause_s := self._due_s - monotonic()) > _LEAST_PAUSE_S:
                pause = threading.Timer(pause_s, self._go_on)
                pause.daemon = True
                pause.start()
                return
            future = self._next_piece()
            self._wait(future)
            if not future.done():
                future.add_done_callback(self._go_on)
                return
        # A remaining reference to the stream keeps the connection of an incomplete body open.
        del self._next_piece, self._protocol, self._then

    def _takes(self, future: _Future) -> bool:
        """Keep the received piece; return whether there is more."""
        piece = self._chunk(future)
        if piece is None:
            return False
        self.received_bytes += len(piece)
        if self._bytes_per_s is not None:
            self._due_s += len(piece) / self._bytes_per_s()
        is_whole = self.received_bytes >= self._length_bytes
        try:
            self._file.write(piece)
            if is_whole:
                self._file.seek(0)
        except OSError:
            # granian ignores exceptions: the request would never be answered, and its caller's count never decrease.
            _logger.exception("A body cannot be stored: writing to the disk of temporary files failed.")
            with suppress(OSError):  # closing flushes
                self._file.close()
            self._then(self, BodyFailure.NO_ROOM)
            return False
        if is_whole:
            self._then(self, self._file)
        elif not piece:
            self._then(self, BodyFailure.BROKEN_OFF)
        return bool(piece) and not is_whole


class IncompleteBodies:
    """Incoming bodies: late ones are dropped, and the oldest if there are too many of unknown callers.

    The oldest, not the newest: the body of a pilot arrives within a round trip, so that it is always among the newest,
    and refusing new ones would serve an attacker.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: In the order of their begin.
        self._of_unknown: dict[IncomingBody, None] = {}
        self._of_known: dict[IncomingBody, None] = {}
        self._callers: Counter[str] = Counter()
        self._dropped: Counter[BodyFailure] = Counter()
        self._is_over = False

    def watch(self) -> None:
        """Start the thread that drops late bodies."""
        threading.Thread(target=self._watch, name="bodies", daemon=True).start()

    def add(self, body: IncomingBody, *, caller: str | None = None) -> None:
        """Watch an incoming body; without a caller, one of an unknown caller."""
        oldest = None
        with self._lock:
            if self._is_over:  # its request was accepted just before the server was stopped
                body.drop(BodyFailure.STOPPED)
            if caller is not None:
                self._of_known[body] = None
                return
            self._of_unknown[body] = None
            if len(self._of_unknown) > settings.WMS_WEB_INCOMPLETE_BODIES:
                oldest = next(iter(self._of_unknown))
                del self._of_unknown[oldest]
        if oldest is not None:
            self._drop(oldest, BodyFailure.CROWDED_OUT)

    def remove(self, body: IncomingBody) -> None:
        """Remove a body that is complete or has failed."""
        with self._lock:
            self._of_unknown.pop(body, None)
            self._of_known.pop(body, None)

    def counts(self, caller: str) -> bool:
        """Count one more long request of a caller; return False, without counting, if that exceeds the limit."""
        with self._lock:
            if self._callers[caller] >= settings.WMS_WEB_LONG_BODIES_OF_ONE_CALLER:
                return False
            self._callers[caller] += 1
            return True

    def under_way(self, caller: str) -> int:
        """Return the number of counted long requests of a caller."""
        return self._callers[caller]

    def forgets(self, caller: str) -> None:
        """Uncount a long request of a caller."""
        with self._lock:
            self._callers[caller] -= 1
            if not self._callers[caller]:
                del self._callers[caller]

    def drop_all(self) -> None:
        """Drop all bodies, and those that come later: the server stops."""
        with self._lock:
            self._is_over = True
        for body in self._all():
            body.drop(BodyFailure.STOPPED)

    def _all(self) -> list[IncomingBody]:
        with self._lock:
            return [*self._of_unknown, *self._of_known]

    def _drop(self, body: IncomingBody, flaw: BodyFailure) -> None:
        body.drop(flaw)
        self._dropped[flaw] += 1

    def _watch(self) -> None:
        silent_s = _SAID_EVERY_S
        while True:
            sleep(_LOOK_EVERY_S)
            for body in self._all():
                if body.is_late():
                    self._drop(body, BodyFailure.LATE)
            silent_s += _LOOK_EVERY_S
            if self._dropped and silent_s >= _SAID_EVERY_S:
                silent_s = 0.0
                dropped, self._dropped = self._dropped, Counter()
                counts = ", ".join(f"{count} {flaw.value}" for flaw, count in dropped.items())
                _logger.warning("Bodies of requests were dropped: %s.", counts)
