"""What decides about each request: whether its body is read, how long that may take, and when it is answered."""

import logging
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Any, Final

from wms.kernel.bodies import most_bytes_of
from wms.web.answers import answer, refuse
from wms.web.bodies import BodyFailure, IncomingBody, LongBody, ShortBody, UnreadBody
from wms.web.callers import caller_of
from wms.web.environ import environ_of
from wms.web.limits import BodyLimits
from wms.web.unread import UnreadAnswers
from wms.web.waiting import IncompleteBodies

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from granian._granian import RSGIHTTPProtocol as HTTPProtocol
    from granian.rsgi import Scope

_logger = logging.getLogger(__name__)

#: Requests with a larger body have few threads of their own: each may need hundreds of times as much memory and time as
#: another.
_LARGE_BYTES: Final = 256 * 1024
_RETRY_AFTER_S: Final = 1
#: Somebody has to make room first.
_NO_ROOM_RETRY_AFTER_S: Final = 60


class Front:
    """Hands requests of granian's RSGI interface to a WSGI application when their bodies are there.

    A body up to a few kB is read from anybody. A longer one is read only if the address takes one of that length and
    the headers name a caller who is known; the application answers the others without it, as it would with it.

    It is called in the threads that answer, and never keeps one waiting for a client. A body over 256 kB comes at a
    bounded rate and is answered in other threads: it takes from everybody else's time what can be spared.
    """

    def __init__(self, application: "WSGIApplication", *, limits: BodyLimits, prefix: str = "") -> None:
        self._application = application
        self._limits = limits
        self._prefix = prefix
        self._incomplete = IncompleteBodies(limits)
        self._large = ThreadPoolExecutor(limits.large_at_once, thread_name_prefix="large")

    def start(self) -> None:
        """Begin to watch the bodies that are on their way, and the answers that are not taken."""
        self._incomplete.watch()
        UnreadAnswers(self._limits).watch()

    def stop(self) -> None:
        """Wait for no body any more."""
        self._incomplete.drop_all()

    def __call__(self, watcher: Any) -> None:  # noqa: ANN401 - granian's
        """Take a request; granian hears of no exception."""
        scope: Scope = watcher.scope
        protocol: HTTPProtocol = watcher.proto
        try:
            self._take(scope, protocol)
        except Exception:
            _logger.exception("%s %s", scope.method, scope.path)
            refuse(protocol, HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", "The server failed; its log says why.")

    def _take(self, scope: "Scope", protocol: "HTTPProtocol") -> None:
        environ = environ_of(scope, prefix=self._prefix)
        if "HTTP_X_FORWARDED_FOR" not in environ and "x-forwarded-for" in scope.headers:
            # Without it the client would be taken for the proxy that has added it to what the client wrote there.
            refuse(protocol, HTTPStatus.BAD_REQUEST, "bad_request", "The header X-Forwarded-For must be ASCII.")
            return
        if "HTTP_TRANSFER_ENCODING" in environ:
            # Nothing here takes a body without its length (wms.kernel.middleware says so to the client).
            environ.pop("CONTENT_LENGTH", None)
            answer(self._application, {**environ, "wsgi.input": UnreadBody()}, protocol)
            return
        length_bytes = int(environ.get("CONTENT_LENGTH") or 0)
        if not length_bytes:
            answer(self._application, environ, protocol)
        elif length_bytes <= self._limits.unknown_bytes:
            body = ShortBody(protocol, partial(self._end, environ, protocol))
            self._incomplete.add(body)
            body.begin()
        else:
            self._take_long(scope.path, environ, protocol, length_bytes)

    def _take_long(self, path: str, environ: "WSGIEnvironment", protocol: "HTTPProtocol", length_bytes: int) -> None:
        """Read a body that is too long to be read from anybody, if whoever sends it is known and may send as much."""
        # The length first: to know somebody costs a query.
        caller = caller_of(environ) if length_bytes <= most_bytes_of(path) else None
        if caller is None:
            answer(self._application, {**environ, "wsgi.input": UnreadBody()}, protocol)
        elif self._incomplete.counts(caller):
            is_large = length_bytes > _LARGE_BYTES
            end = partial(self._end_long, caller, environ, protocol, is_large)
            rate = partial(self._rate, caller) if is_large else None
            body = LongBody(protocol, end, length_bytes=length_bytes, bytes_per_s=rate)
            self._incomplete.add(body, caller=caller)
            body.begin()
        else:
            detail = "Too many of your long requests are under way; send it again when one of them is answered."
            refuse(protocol, HTTPStatus.TOO_MANY_REQUESTS, "too_many", detail, retry_after_s=_RETRY_AFTER_S)

    def _rate(self, caller: str) -> float:
        """Return the bytes per second of each large body of a caller: one who sends several at once sends no faster."""
        return self._limits.caller_bytes_per_s / max(1, self._incomplete.under_way(caller))

    def _end(
        self,
        environ: "WSGIEnvironment",
        protocol: "HTTPProtocol",
        incoming: IncomingBody,
        body: IO[bytes] | BodyFailure,
    ) -> None:
        """Answer a request whose body is there, or will never be."""
        self._incomplete.remove(incoming)
        if isinstance(body, BodyFailure):
            _refuse_for(body, protocol)
            return
        environ["wsgi.input"] = body
        answer(self._application, environ, protocol)

    def _end_long(
        self,
        caller: str,
        environ: "WSGIEnvironment",
        protocol: "HTTPProtocol",
        is_large: bool,  # noqa: FBT001 - bound by partial
        incoming: IncomingBody,
        body: IO[bytes] | BodyFailure,
    ) -> None:
        """As for a short one, and then count one less of the caller; large ones in threads of their own."""

        def end() -> None:
            try:
                with nullcontext() if isinstance(body, BodyFailure) else body:
                    self._end(environ, protocol, incoming, body)
            except Exception:
                _logger.exception("A request with a long body failed.")
            finally:
                self._incomplete.forgets(caller)

        if isinstance(body, BodyFailure) or not is_large:
            end()
        else:
            self._incomplete.remove(incoming)
            self._large.submit(end)


def _refuse_for(flaw: BodyFailure, protocol: "HTTPProtocol") -> None:
    if flaw is BodyFailure.LATE:
        detail = "The body did not come in time; send the request again."
        refuse(protocol, HTTPStatus.REQUEST_TIMEOUT, "request_timeout", detail)
    elif flaw is BodyFailure.BROKEN_OFF:
        refuse(protocol, HTTPStatus.BAD_REQUEST, "bad_request", "The body broke off; send the request again.")
    elif flaw is BodyFailure.NO_ROOM:
        detail = "The server has no room for the body; tell its operator, and send the request again later."
        refuse(protocol, HTTPStatus.SERVICE_UNAVAILABLE, "no_room", detail, retry_after_s=_NO_ROOM_RETRY_AFTER_S)
    else:
        detail = "The server cannot wait for the body; send the request again."
        refuse(protocol, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", detail, retry_after_s=_RETRY_AFTER_S)
