"""The request buffer: whether the body of a request is read, how long that may take, and when it is answered."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from http import HTTPStatus
from typing import IO, TYPE_CHECKING, Final, Protocol, TypeAlias

from django.conf import settings

from wms.kernel.bodies import most_bytes_of
from wms.web.answers import answer, refuse, refuse_failed
from wms.web.bodies import BodyFailure, IncomingBody, IncompleteBodies, LongBody, ShortBody, UnreadBody
from wms.web.callers import caller_of, credential_of, is_of_machine
from wms.web.environ import environ_of
from wms.web.streams import StreamedAnswers
from wms.web.thread_pool import PoolShare, ThreadPool, Work, logged
from wms.web.unread import UnreadAnswers

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from granian._granian import RSGIHTTPProtocol as HTTPProtocol
    from granian.rsgi import Scope

#: Bytes; requests with a larger body run in few threads of their own, as each may need hundreds of times the memory and
#: time of another.
_LARGE_BYTES: Final = 256 * 1024
#: Seconds before an idle thread ends; long, as each thread keeps a connection to the database.
_IDLE_THREAD_S: Final = 600.0
_RETRY_AFTER_S: Final = 1
#: Seconds; an operator has to free disk space first.
_NO_ROOM_RETRY_AFTER_S: Final = 60


#: Gives a piece of work to threads.
Submit: TypeAlias = Callable[[Work], None]


class _Watcher(Protocol):
    """granian's object for one request."""

    scope: "Scope"
    proto: "HTTPProtocol"


class RequestBuffer:
    """Passes requests of granian's RSGI interface to a WSGI application when their bodies are complete.

    A body of a few kB is read from any client. A longer one is read only if the view accepts that length and the
    headers authenticate a caller; otherwise the application answers without the body, with the same error.

    It runs in granian's threads, which wait neither for a client nor for the database: others answer. A body over
    256 kB arrives at a limited rate and is answered in threads of its own, so that it slows down no other requests.

    Args:
        application: answers the requests.
        threads: requests that are answered at once, beside those with a body over 256 kB; three eighths of them may be
            of people, of each token or session one, so that pilots find a thread while many pages are open.
        prefix: of all paths.
    """

    def __init__(self, application: "WSGIApplication", *, threads: int, prefix: str = "") -> None:
        self._application = application
        self._pool = ThreadPool(threads, idle_s=_IDLE_THREAD_S)
        self._of_people = PoolShare(self._pool, size=max(1, threads * 3 // 8))
        self._large = ThreadPool(settings.WMS_WEB_LARGE_BODIES_AT_ONCE, idle_s=_IDLE_THREAD_S)
        self._prefix = prefix
        self._incomplete = IncompleteBodies()
        self._streams = StreamedAnswers(settings.WMS_WEB_STREAMS_AT_ONCE)

    def start(self) -> None:
        """Start watching incoming bodies, and answers that clients do not read."""
        self._incomplete.watch()
        UnreadAnswers().watch()

    def stop(self) -> None:
        """Stop waiting for bodies."""
        self._incomplete.drop_all()

    def __call__(self, watcher: _Watcher) -> None:
        """Handle a request; exceptions are logged, as granian ignores them."""
        scope, protocol = watcher.scope, watcher.proto
        _safely(scope, protocol, partial(self._take, scope, protocol))

    def _take(self, scope: "Scope", protocol: "HTTPProtocol") -> None:
        environ = environ_of(scope, prefix=self._prefix)
        if "HTTP_X_FORWARDED_FOR" not in environ and "x-forwarded-for" in scope.headers:
            # Left out, the client would get the address of the proxy that added it to the client's own header.
            refuse(protocol, HTTPStatus.BAD_REQUEST, "bad_request", "The header X-Forwarded-For must be ASCII.")
            return
        if "HTTP_TRANSFER_ENCODING" in environ:
            # A body without its length is not accepted; wms.kernel.middleware answers with the error.
            environ.pop("CONTENT_LENGTH", None)
            self._answer({**environ, "wsgi.input": UnreadBody()}, protocol)
            return
        length_bytes = int(environ.get("CONTENT_LENGTH") or 0)
        if not length_bytes:
            self._answer(environ, protocol)
        elif length_bytes <= settings.WMS_WEB_UNKNOWN_BODY_BYTES:
            body = ShortBody(protocol, partial(self._end_short, environ, protocol))
            self._incomplete.add(body)
            body.begin()
        else:
            take = partial(self._take_long, scope.path, environ, protocol, length_bytes)
            self._threads_for(environ)(partial(_safely, scope, protocol, take))

    def _threads_for(self, environ: "WSGIEnvironment") -> Submit:
        if is_of_machine(environ):
            return self._pool.submit
        return partial(self._of_people.submit, caller=credential_of(environ))

    def _answer(self, environ: "WSGIEnvironment", protocol: "HTTPProtocol") -> None:
        self._threads_for(environ)(partial(answer, self._application, environ, protocol, streams=self._streams))

    def _take_long(self, path: str, environ: "WSGIEnvironment", protocol: "HTTPProtocol", length_bytes: int) -> None:
        """Read a long body if its caller is known and the view accepts its length."""
        # The length first: authentication costs a query.
        caller = caller_of(environ) if length_bytes <= most_bytes_of(path) else None
        if caller is None:
            answer(self._application, {**environ, "wsgi.input": UnreadBody()}, protocol, streams=self._streams)
        elif self._incomplete.counts(caller):
            is_large = length_bytes > _LARGE_BYTES
            submit = self._large.submit if is_large else self._threads_for(environ)
            end = partial(self._end_long, caller, environ, protocol, submit)
            rate = partial(self._rate, caller) if is_large else None
            body = LongBody(protocol, end, length_bytes=length_bytes, bytes_per_s=rate)
            self._incomplete.add(body, caller=caller)
            body.begin()
        else:
            detail = "Too many of your long requests are under way; send it again when one of them is answered."
            refuse(protocol, HTTPStatus.TOO_MANY_REQUESTS, "too_many", detail, retry_after_s=_RETRY_AFTER_S)

    def _rate(self, caller: str) -> float:
        """Return the bytes per second of each large body of a caller, who shares the rate among all of them."""
        of_all: float = settings.WMS_WEB_CALLER_BYTES_PER_S
        return of_all / max(1, self._incomplete.under_way(caller))

    def _end_short(
        self,
        environ: "WSGIEnvironment",
        protocol: "HTTPProtocol",
        incoming: IncomingBody,
        body: IO[bytes] | BodyFailure,
    ) -> None:
        self._incomplete.remove(incoming)
        self._threads_for(environ)(partial(self._end, environ, protocol, body))

    def _end(self, environ: "WSGIEnvironment", protocol: "HTTPProtocol", body: IO[bytes] | BodyFailure) -> None:
        """Answer a request whose body is complete or has failed."""
        if isinstance(body, BodyFailure):
            _refuse_for(body, protocol)
            return
        environ["wsgi.input"] = body
        answer(self._application, environ, protocol, streams=self._streams)

    def _end_long(
        self,
        caller: str,
        environ: "WSGIEnvironment",
        protocol: "HTTPProtocol",
        submit: Submit,
        incoming: IncomingBody,
        body: IO[bytes] | BodyFailure,
    ) -> None:
        """Answer as ``_end`` and uncount the caller's request; a complete body by *submit*."""

        def end() -> None:
            try:
                with nullcontext() if isinstance(body, BodyFailure) else body:
                    self._end(environ, protocol, body)
            finally:
                self._incomplete.forgets(caller)

        self._incomplete.remove(incoming)
        (self._threads_for(environ) if isinstance(body, BodyFailure) else submit)(end)


def _safely(scope: "Scope", protocol: "HTTPProtocol", step: Callable[[], None]) -> None:
    """Do a step of a request; if it fails, refuse the request and log the exception."""
    with logged("%s %s", scope.method, scope.path, then=partial(refuse_failed, protocol)):
        step()


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
