"""Answers that are made piece by piece while they are sent, such as archives and long lists.

granian's own stream keeps in memory what its client has not read yet, without a limit. A named pipe does not: granian
sends it as it sends a file, at the client's speed, and a full pipe stops its writer. A client that reads too slowly is
closed like every other (``unread``), which ends the writer too.
"""

import errno
import os
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock, Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final, NamedTuple

from django.db import connections

from wms.web.thread_pool import logged

if TYPE_CHECKING:
    from granian._granian import RSGIHTTPProtocol as HTTPProtocol

Headers = list[tuple[str, str]]

#: Seconds in which granian opens the pipe; it opens none if the client has left.
_OPENED_WITHIN_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.005
#: Seconds after which a client tries again that was refused because too many streams were under way.
RETRY_AFTER_S: Final = 5


class Refusal(NamedTuple):
    """The answer instead of a stream."""

    status: HTTPStatus
    code: str
    detail: str


_OF_ALL: Final = Refusal(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "unavailable",
    "The server sends as many downloads of this kind as it can at once; try again when one has ended.",
)
_OF_CALLER: Final = Refusal(
    HTTPStatus.TOO_MANY_REQUESTS,
    "too_many",
    "You have as many downloads of this kind under way as one user may; start this one when another has ended.",
)


class StreamedAnswers:
    """The streamed answers of this process; each occupies a thread of its own, so that other requests do not wait.

    Args:
        at_once: streams at most, of one caller half of them; further ones are refused.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._of_one_caller = max(1, at_once // 2)
        self._lock = Lock()
        #: {caller: streams under way}.
        self._streams: Counter[str | None] = Counter()

    def send(
        self, protocol: "HTTPProtocol", status: int, headers: Headers, body: Iterable[bytes], *, caller: str | None
    ) -> Refusal | None:
        """Send *body* from a thread, which closes it at its end.

        Args:
            protocol: of the request.
            status: of the answer.
            headers: of the answer.
            body: its pieces.
            caller: a name, as of ``caller_of``; all unknown callers count as one.

        Returns:
            The answer instead, if too many streams are under way; nothing is done then.
        """
        if refusal := self._occupy(caller):
            return refusal
        with ExitStack() as undo:
            undo.callback(self._free, caller)
            directory = TemporaryDirectory(prefix="wms-stream-")
            pipe = Path(directory.name) / "pipe"
            os.mkfifo(pipe, 0o600)
            protocol.response_file(status, headers, str(pipe))
            undo.pop_all()
        # A daemon: a process that is stopped does not wait for a client that reads for hours.
        Thread(target=self._write, args=(pipe, directory, body, caller), name="stream", daemon=True).start()
        return None

    def _occupy(self, caller: str | None) -> Refusal | None:
        with self._lock:
            if self._streams.total() >= self._at_once:
                return _OF_ALL
            if self._streams[caller] >= self._of_one_caller:
                return _OF_CALLER
            self._streams[caller] += 1
            return None

    def _free(self, caller: str | None) -> None:
        with self._lock:
            # Without zeros: callers that have left are not remembered.
            self._streams = self._streams - Counter({caller: 1})

    def _write(
        self, pipe: Path, directory: "TemporaryDirectory[str]", body: Iterable[bytes], caller: str | None
    ) -> None:
        try:
            # Too late for an error: the client has left, or gets an incomplete answer.
            with logged("A streamed answer broke off."), suppress(BrokenPipeError):
                with directory:
                    descriptor = _opened(pipe)
                if descriptor is None:
                    return
                with os.fdopen(descriptor, "wb", buffering=0) as file:
                    for piece in body:
                        _write_all(file.fileno(), piece)
        finally:
            _close(body)
            connections.close_all()
            self._free(caller)


def _opened(pipe: Path) -> int | None:
    """Return a descriptor for writing as soon as granian has opened the pipe for reading; None: it does not."""
    until = monotonic() + _OPENED_WITHIN_S
    while monotonic() < until:
        try:
            descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:  # nobody reads it yet
                raise
            sleep(_LOOK_EVERY_S)
        else:
            os.set_blocking(descriptor, True)
            return descriptor
    return None


def _write_all(descriptor: int, piece: bytes) -> None:
    left = memoryview(piece)
    while left:
        left = left[os.write(descriptor, left) :]


def _close(body: Iterable[bytes]) -> None:
    close = getattr(body, "close", None)
    if close is not None:
        close()
