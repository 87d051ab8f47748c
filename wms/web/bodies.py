"""Bodies on their way: read as they come, dropped when they come too slowly, in no thread of their own."""

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

#: More than this of a body waits on the disk.
_IN_MEMORY_BYTES: Final = 1024 * 1024
#: A timer costs more than a shorter one would save.
_LEAST_PAUSE_S: Final = 0.02


class BodyFailure(Enum):
    """Why a body is not there."""

    LATE = "late"
    CROWDED_OUT = "crowded out"
    STOPPED = "stopped"
    BROKEN_OFF = "broken off"
    NO_ROOM = "without room on the disk"


#: Called once, with what was waited for, and the body or why there is none.
Then = Callable[["IncomingBody", IO[bytes] | BodyFailure], None]


class UnreadBody:
    """The body of a request that is to be refused for its headers: nothing of it is read, whoever tries to."""

    def read(self, _size: int = -1) -> NoReturn:
        """Raise.

        Raises:
            RequestDataTooBig: always.
        """
        raise RequestDataTooBig(
            "The body is larger than what is taken here, or than what is read before its sender is known."
        )

    readline = read


class IncomingBody:
    """A body of which something has still to come.

    NB: granian's futures are outside of Python's garbage collection, so none may be kept that has been used.
    """

    def __init__(self, protocol: "HTTPProtocol", then: Then) -> None:
        self._protocol = protocol
        self._then = then
        self._future: Any = None
        self._flaw: BodyFailure | None = None
        self._begun_s = monotonic()
        self.received_bytes = 0

    def begin(self) -> None:
        """Begin to read."""
        raise NotImplementedError

    def is_late(self, limits: BodyLimits) -> bool:
        """Return whether it comes too slowly."""
        return limits.is_late(monotonic() - self._begun_s, received_bytes=self.received_bytes)

    def drop(self, flaw: BodyFailure) -> None:
        """Read no more of it, unless all has come."""
        self._flaw = flaw
        future = self._future
        if future is not None:
            future.cancel()  # which calls what waits for it

    def _wait(self, future: Any) -> None:  # noqa: ANN401 - granian's
        self._future = future
        if self._flaw is not None:  # dropped before there was anything to cancel
            future.cancel()

    def _chunk(self, future: Any) -> bytes | None:  # noqa: ANN401 - granian's
        """Return what has come; None, and all is over, if nothing will."""
        self._future = None
        if future.cancelled():
            self._then(self, self._flaw or BodyFailure.BROKEN_OFF)
            return None
        try:
            return cast("bytes", future.result())
        except RuntimeError:  # granian's errors of a connection
            self._then(self, BodyFailure.BROKEN_OFF)
            return None


class ShortBody(IncomingBody):
    """A body that is taken as one piece."""

    def begin(self) -> None:
        """Begin to read."""
        future: Any = self._protocol()
        self._wait(future)
        future.add_done_callback(self._end)

    def _end(self, future: Any) -> None:  # noqa: ANN401 - granian's
        body = self._chunk(future)
        if body is not None:
            self._then(self, BytesIO(body))


class LongBody(IncomingBody):
    """A body of a known length that is kept piece by piece.

    Args:
        length_bytes: of all of it.
        bytes_per_s: returns at what rate it may come at the moment; None: at any. A pause of the reader makes the
            sender wait.
    """

    def __init__(
        self, protocol: "HTTPProtocol", then: Then, *, length_bytes: int, bytes_per_s: Callable[[], float] | None
    ) -> None:
        super().__init__(protocol, then)
        self._length_bytes = length_bytes
        self._bytes_per_s = bytes_per_s
        #: When, at that rate, what has come should have come.
        self._due_s = self._begun_s
        self._file = cast("IO[bytes]", SpooledTemporaryFile(_IN_MEMORY_BYTES))  # noqa: SIM115 - the reader closes it
        self._pieces: Any = None

    def begin(self) -> None:
        """Begin to read."""
        self._pieces = self._protocol.__aiter__()
        self._go_on()

    def _go_on(self, future: Any = None) -> None:  # noqa: ANN401 - granian's
        # A loop: were each piece that has come already taken by a call, a long body would exhaust the stack.
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
        # While anything refers to the stream, the connection of a body that was not read to its end stays open.
        del self._pieces, self._protocol, self._then

    def _takes(self, future: Any) -> bool:  # noqa: ANN401 - granian's
        """Keep what has come; return whether there is more."""
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
            # granian hears of no exception: the request would never be answered, and its caller's count never go down.
            _logger.exception("The disk for temporary files takes no more of a body.")
            with suppress(OSError):  # what is still to be written
                self._file.close()
            self._then(self, BodyFailure.NO_ROOM)
            return False
        if is_whole:
            self._then(self, self._file)
        elif not piece:
            self._then(self, BodyFailure.BROKEN_OFF)
        return bool(piece) and not is_whole
