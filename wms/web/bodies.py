"""Incoming bodies: read as they arrive, dropped when too slow, without a thread of their own."""

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from io import BytesIO
from tempfile import SpooledTemporaryFile
from time import monotonic
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn, cast

from django.core.exceptions import RequestDataTooBig

from wms.web.limits import BodyLimits

if TYPE_CHECKING:
    from granian._granian import RSGIHTTPProtocol as HTTPProtocol

_logger = logging.getLogger(__name__)

#: Bytes of a body kept in memory; larger ones are kept on disk.
_IN_MEMORY_BYTES: Final = 1024 * 1024
#: Seconds; a timer costs more than a shorter pause would save.
_LEAST_PAUSE_S: Final = 0.02


class BodyFailure(Enum):
    """The reason why a body is missing; the value completes a log line."""

    LATE = "late"
    CROWDED_OUT = "crowded out"
    STOPPED = "stopped"
    BROKEN_OFF = "broken off"
    NO_ROOM = "without room on the disk"


#: Called once, with the incoming body, and either its content or the failure.
Then = Callable[["IncomingBody", IO[bytes] | BodyFailure], None]


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
    """A body that is still arriving.

    NB: granian's futures are outside of Python's garbage collection, so used ones must not be kept.
    """

    def __init__(self, protocol: "HTTPProtocol", then: Then) -> None:
        self._protocol = protocol
        self._then = then
        self._future: Any = None
        self._flaw: BodyFailure | None = None
        self._begun_s = monotonic()
        self.received_bytes = 0

    def begin(self) -> None:
        """Start reading."""
        raise NotImplementedError

    def is_late(self, limits: BodyLimits) -> bool:
        """Return whether it arrives too slowly."""
        return limits.is_late(monotonic() - self._begun_s, received_bytes=self.received_bytes)

    def drop(self, flaw: BodyFailure) -> None:
        """Stop reading it, unless it is complete."""
        self._flaw = flaw
        future = self._future
        if future is not None:
            future.cancel()  # which calls its callback

    def _wait(self, future: Any) -> None:  # noqa: ANN401 - granian's
        self._future = future
        if self._flaw is not None:  # dropped before there was a future to cancel
            future.cancel()

    def _chunk(self, future: Any) -> bytes | None:  # noqa: ANN401 - granian's
        """Return the received bytes; None if none will come, after calling ``then``."""
        self._future = None
        if future.cancelled():
            self._then(self, self._flaw or BodyFailure.BROKEN_OFF)
            return None
        try:
            return cast("bytes", future.result())
        except RuntimeError:  # granian's connection errors
            self._then(self, BodyFailure.BROKEN_OFF)
            return None


class ShortBody(IncomingBody):
    """A body read in one piece."""

    def begin(self) -> None:
        """Start reading."""
        future: Any = self._protocol()
        self._wait(future)
        future.add_done_callback(self._end)

    def _end(self, future: Any) -> None:  # noqa: ANN401 - granian's
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
        self._pieces: Any = None

    def begin(self) -> None:
        """Start reading."""
        self._pieces = self._protocol.__aiter__()
        self._go_on()

    def _go_on(self, future: Any = None) -> None:  # noqa: ANN401 - granian's
        # A loop: if each available piece were taken by a recursive call, a long body would exhaust the stack.
        while future is None or self._takes(future):
            if future is not None and (pause_s := self._due_s - monotonic()) > _LEAST_PAUSE_S:
                pause = threading.Timer(pause_s, self._go_on)
                pause.daemon = True
                pause.start()
                return
            future = self._pieces.__anext__()
            self._wait(future)
            if not future.done():
                future.add_done_callback(self._go_on)
                return
        # A remaining reference to the stream keeps the connection of an incomplete body open.
        del self._pieces, self._protocol, self._then

    def _takes(self, future: Any) -> bool:  # noqa: ANN401 - granian's
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
