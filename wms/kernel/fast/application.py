"""Answers to plain requests for fast views, before these reach the frameworks (ADR 25)."""

from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Final

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from wms.kernel import access_log
from wms.kernel.addresses import is_https
from wms.kernel.callers import current_request_id
from wms.kernel.counters import REQUESTS
from wms.kernel.database_version import refusal_of_running
from wms.kernel.errors import WmsError
from wms.kernel.fast.statements import close_aged
from wms.kernel.fast.views import FastAnswer, FastView, encode
from wms.kernel.handlers import with_version
from wms.kernel.middleware import NOT_KEPT
from wms.kernel.rates import count_machine
from wms.kernel.request_ids import HEADER, request_id_of
from wms.kernel.rest import load_json, token_in

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

#: As set by the frameworks; the first only for a body.
_HEADERS: Final = (
    ("Content-Type", "application/json"),
    ("Cache-Control", NOT_KEPT),
    ("Allow", "POST, OPTIONS"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("X-Frame-Options", "DENY"),
)
#: In the WSGI environment, for the access log.
_CALLER: Final = "wms.caller"


class FastApplication:
    """The WSGI application in front of Django's, to which all other requests go on, also invalid ones.

    It sets the id of the request (``wms.kernel.request_ids``), whoever answers it.

    Args:
        application: Django's.
        views: answered here, by the names of their addresses.
        at_start: called by a web process before its first request.
    """

    def __init__(
        self,
        application: "WSGIApplication",
        views: Mapping[str, type[FastView]],
        *,
        at_start: Callable[[], object] | None = None,
    ) -> None:
        self.at_start = at_start
        self._application = application
        self._views = views

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer the request."""
        request_id = request_id_of(environ)
        before = current_request_id.set(request_id)
        try:
            return self._answered(environ, start_response, (HEADER, request_id))
        finally:
            current_request_id.reset(before)

    def _answered(
        self, environ: "WSGIEnvironment", start_response: "StartResponse", its_id: tuple[str, str]
    ) -> Iterable[bytes]:
        begun_at_s = monotonic()
        try:
            found = self._answer(environ)
            content = b"" if found is None or found[1].body is None else encode(found[1].body)
        except Exception:  # noqa: BLE001 - the view meets the same error, and reports it
            found = None
        if found is None:
            return self._application(
                environ, lambda status, headers, *error: start_response(status, [*headers, its_id], *error)
            )
        route, answer = found
        REQUESTS.labels(route, f"{answer.status[0]}xx").inc()
        headers = _HEADERS if content else _HEADERS[1:]
        start_response(answer.status, [*headers, *answer.headers, its_id, ("Content-Length", str(len(content)))])
        if settings.WMS_ACCESS_LOG:
            access_log.write(
                method="POST",
                route=route,
                status=int(answer.status[:3]),
                begun_at_s=begun_at_s,
                caller=environ[_CALLER],
            )
        return [content]

    def _answer(self, environ: "WSGIEnvironment") -> tuple[str, FastAnswer] | None:
        """Return the name of the address, and the answer; None: the frameworks must answer."""
        path = with_version(environ["PATH_INFO"])
        for route, view in self._views.items():
            if address := view.fast_path.fullmatch(path):
                caller = view.plain_caller(environ)
                if caller is None or environ.get("QUERY_STRING") or not _is_ours(environ):
                    return None
                close_aged()
                if refusal_of_running():
                    return None
                principal, credential = caller.principal_of(token_in(environ["HTTP_AUTHORIZATION"]))
                count_machine(caller_name := str(principal))
                environ[_CALLER] = caller_name
                values = view.fast_body.plainly(load_json(_body(environ)))
                try:
                    return None if values is None else (route, view.fast_answer(credential, values, *address.groups()))
                except WmsError as refusal:
                    environ[view.REFUSAL] = refusal
                    return None
        return None


def _is_ours(environ: "WSGIEnvironment") -> bool:
    """Return whether the request has a host name of this server, and uses HTTPS where that is required."""
    domain, _ = split_domain_port(environ.get("HTTP_HOST", ""))
    return validate_host(domain, settings.ALLOWED_HOSTS) and (not settings.WMS_HTTPS or is_https(environ))


def _body(environ: "WSGIEnvironment") -> bytes:
    """Return the body, which remains readable for the view; empty if it is too long."""
    length = int(environ["CONTENT_LENGTH"])
    if length > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        return b""
    body: bytes = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = BytesIO(body)
    return body
