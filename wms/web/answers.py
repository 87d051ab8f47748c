"""Answers: those of the application, and errors without it."""

import sys
from collections.abc import Iterable
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from django.http import FileResponse

from wms.kernel.db import RETRY_AFTER_S as OUTAGE_RETRY_AFTER_S
from wms.kernel.handlers import ADVICE, FAILED, outage_behind
from wms.kernel.rest.errors import PROBLEM, error_body
from wms.web.callers import caller_of
from wms.web.environ import FileBody
from wms.web.streams import RETRY_AFTER_S, Headers, StreamedAnswers
from wms.web.thread_pool import logged

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from granian._granian import RSGIHTTPProtocol as HTTPProtocol

_PROBLEM: Final = ("Content-Type", PROBLEM)


class _Head:
    """The application's ``start_response``."""

    __slots__ = ("headers", "status")

    status: int
    headers: Headers

    def __call__(self, status: str, headers: Headers, _error: object = None) -> Any:  # noqa: ANN401 - never used
        self.status = int(status[:3])
        self.headers = headers


def answer(
    application: "WSGIApplication", environ: "WSGIEnvironment", protocol: "HTTPProtocol", *, streams: StreamedAnswers
) -> None:
    """Let the application answer a request; exceptions are logged, as granian ignores them."""
    failed = partial(refuse_failed, protocol)
    with logged("%s %s", environ.get("REQUEST_METHOD"), environ.get("PATH_INFO"), then=failed):
        _answer(application, environ, protocol, streams)


def refuse_failed(protocol: "HTTPProtocol") -> None:
    """Answer a request for which the server has just failed, in an exception handler."""
    if outage := outage_behind(sys.exc_info()[1]):
        code, reason = outage
        detail = f"{reason} {ADVICE}"
        refuse(protocol, HTTPStatus.SERVICE_UNAVAILABLE, code, detail, retry_after_s=OUTAGE_RETRY_AFTER_S)
    else:
        refuse(protocol, HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", FAILED)


def refuse(
    protocol: "HTTPProtocol", status: HTTPStatus, code: str, detail: str, *, retry_after_s: int | None = None
) -> None:
    """Answer without the application, in the API's shape; the rest of the body is not read."""
    headers: Headers = [_PROBLEM]
    if retry_after_s is not None:
        headers.append(("Retry-After", str(retry_after_s)))
    protocol.response_bytes(status.value, headers, msgspec.json.encode(error_body(status, code, detail)))


def _answer(
    application: "WSGIApplication", environ: "WSGIEnvironment", protocol: "HTTPProtocol", streams: StreamedAnswers
) -> None:
    head = _Head()
    body: Iterable[bytes] = application(environ, head)
    sends_itself = False
    try:
        place = body.place() if isinstance(body, FileBody) else None
        if getattr(body, "streaming", False) and not isinstance(body, FileResponse):
            # Of Django: the content is made while it is sent. Of a file, this is one of the program's own that was
            # compressed (``wms.kernel.compression``): a page asks for several at once, and they are small.
            refusal = streams.send(protocol, head.status, head.headers, body, caller=caller_of(environ))
            sends_itself = refusal is None
            if refusal is not None:
                refuse(protocol, *refusal, retry_after_s=RETRY_AFTER_S)
        elif place is None:
            protocol.response_bytes(head.status, head.headers, b"".join(body))
        # The others are sent by granian's threads, at the client's speed.
        elif place.is_whole:
            protocol.response_file(head.status, head.headers, place.path)
        else:
            protocol.response_file_range(head.status, head.headers, place.path, place.start, place.stop)
    finally:
        close = getattr(body, "close", None)
        if close is not None and not sends_itself:
            close()
