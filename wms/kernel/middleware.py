"""Middleware: requests refused before any view, and features that only pages need."""

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from csp.middleware import CSPMiddleware
from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from wms.kernel.addresses import comes_from_proxy
from wms.kernel.counters import REQUESTS
from wms.kernel.database_version import refusal_of_running
from wms.kernel.handlers import API, api_error, is_retired, no_such_address, unavailable
from wms.kernel.rest import has_bearer_token
from wms.kernel.rest.error_codes import PAGES
from wms.wire.protocol import API_V1

#: Cache-Control of answers that are private to their caller.
NOT_KEPT = "private, no-store"
#: Methods for which a client may be redirected safely.
READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
#: Charsets that are UTF-8, or part of it.
_UTF_8: Final = frozenset({"utf-8", "utf8", "us-ascii", "ascii"})
#: Addresses for monitoring (wms.kernel.urls).
_PROBES: Final = frozenset({"/healthz", "/readyz"})
#: Begins the User-Agent of the client, also in programs that use its library; its version follows.
CLIENT: Final = "wms-client/"
#: Oldest version that is served. It is raised when an older one would do harm, not with each release: within a version
#: of the interface nothing is removed (ADR 52).
OLDEST_CLIENT: Final = (0, 1, 0)
_CLIENT_VERSION: Final = re.compile(rf"{CLIENT}((\d{{1,6}})\.(\d{{1,6}})\.(\d{{1,6}}))")


class CountedRequests:
    """Count the answers, by the name of the address and the class of the status."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        response = self.get_response(request)
        route = "none" if request.resolver_match is None else request.resolver_match.view_name
        REQUESTS.labels(route, f"{response.status_code // 100}xx").inc()
        return response


class TrustedTransport:
    """Accept X-Forwarded-Proto from trusted proxies only, and refuse plain HTTP below /api/.

    Pages are redirected by Django's SecurityMiddleware, which comes next. API clients are not: their token has already
    been sent in clear, and the redirect would turn a write into a read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if "HTTP_X_FORWARDED_PROTO" in request.META and not comes_from_proxy(request):
            del request.META["HTTP_X_FORWARDED_PROTO"]
        if settings.WMS_HTTPS and request.path.startswith(API) and not request.is_secure():
            return api_error(HTTPStatus.FORBIDDEN, "https_required", "This server accepts https:// only.")
        return self.get_response(request)


class PrivateAnswers:
    """Forbid caches to store an answer that sets no Cache-Control itself: most are private to their caller."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", NOT_KEPT)
        return response


class KnownDatabase:
    """Answer 503 while a newer program has migrated the database; probes of supervisors are answered as ever."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if request.path in _PROBES or (refusal := refusal_of_running()) is None:
            return self.get_response(request)
        return unavailable(request, refusal)


class StrictRequests:
    """Refuse invalid addresses, and bodies that Django would misread.

    A NUL character in the path or the query string is 400: PostgreSQL stores none, so a look-up would fail as 500.

    Another charset than UTF-8 is 415: Django would decode forms and the query string by any codec of Python, and
    punycode takes time that grows with the square of the size (31 s for 256 kB).

    An address below /api/ without a version is 404, unless it is of those for old agents (ADR 52); whatever the method
    and the body, the answer names the new address.

    A client that is too old is 426, except for the version of the server and what is said of errors.

    A write below /api/ without the final slash is 404: Django would redirect it, and clients follow a redirect with
    GET, so that a submission would seem to succeed as a list of jobs.

    A body without Content-Length (chunked) is 400 and a compressed one 415: Django would read the first as empty, and
    would not decompress the second.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, or raise BadRequest for handler400."""
        if "\x00" in request.path or _holds_nul(request):
            detail = "The address holds a NUL character (%00), which cannot be stored; leave it out."
            if not request.path.startswith(API):
                raise BadRequest(detail)
            return api_error(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        if request.encoding is not None and request.encoding.lower() not in _UTF_8:
            detail = f'The charset "{request.encoding[:40]}" of a body is not accepted; send UTF-8.'
            if not request.path.startswith(API):
                raise BadRequest(detail)
            return api_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
        if is_retired(request.path):
            return no_such_address(request.path)
        if not request.path.startswith(API):
            return self.get_response(request)
        refusal = _refusal_of_client(request) or (None if request.method in READS else _refusal_of_writing(request))
        return refusal or self.get_response(request)


def _refusal_of_client(request: HttpRequest) -> HttpResponse | None:
    version = too_old(request.META.get("HTTP_USER_AGENT", ""))
    if version is None or request.path == API_V1 or request.path.startswith(PAGES):
        return None
    detail = (
        f"This server serves wms-client {oldest_client()} and newer, and yours is {version}: install a newer one, "
        "for example with pip install --upgrade wms-client."
    )
    return api_error(HTTPStatus.UPGRADE_REQUIRED, "client_too_old", detail)


def _refusal_of_writing(request: HttpRequest) -> HttpResponse | None:
    header = request.META
    if not request.path.endswith("/"):
        detail = f"There is no such address; every address to write to ends with a slash: {request.path}/"
        return api_error(HTTPStatus.NOT_FOUND, "not_found", detail)
    if header.get("HTTP_TRANSFER_ENCODING") and not header.get("CONTENT_LENGTH"):
        detail = "The body came without its length and was not read; send it with Content-Length, not in chunks."
        return api_error(HTTPStatus.BAD_REQUEST, "length_required", detail)
    encoding = header.get("HTTP_CONTENT_ENCODING", "")
    if encoding.lower() not in {"", "identity"}:
        detail = f'The encoding "{encoding[:40]}" of a body is not accepted; send it without Content-Encoding.'
        return api_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    return None


def _holds_nul(request: HttpRequest) -> bool:
    # Cheap test: few query strings have an encoded NUL, and parsing all of them would slow down each request.
    query = str(request.META.get("QUERY_STRING", ""))
    return "%00" in query or "\x00" in query


#: In UTF-8: control characters except tabs and ends of lines, C1 controls, characters that change the direction of a
#: text (marks, embeddings, overrides, isolates), and the separators of lines and paragraphs.
_STEERING = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)


def visible(text: bytes) -> bytes:
    r"""Return a text in UTF-8 with such characters written as ``\\x1b`` or ``\\u202e``, as in logs and by ``wms``."""
    return _STEERING.sub(lambda match: ascii(match.group().decode())[1:-1].encode(), text)


class _ForPages(MiddlewareMixin):
    """Base of middleware that is skipped by requests below /api/ with a bearer token.

    Such a request is authenticated by its token alone, never by a session, and no browser shows its answer: cookies
    and content rules would take a third of the time of a match outside of the database.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer the request; skip this middleware if it carries a token."""
        if request.path.startswith(API) and has_bearer_token(request):
            return self.get_response(request)
        return super().__call__(request)


class PageRules(_ForPages, CSPMiddleware):
    """Content-Security-Policy of pages: the sources that a page may load and run."""


class PageSessions(_ForPages, SessionMiddleware):
    """Sessions by cookie."""


class PageCharacters(_ForPages):
    """Escape control and direction characters in pages, so that texts of payloads, users and sites hide nothing.

    Done here, not in templates: those of the admin are Django's own, and every page would have to do it. It covers the
    fields of forms too, which send back the escaped text.
    """

    def process_response(self, _request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Escape such characters in pages and texts."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if isinstance(response, HttpResponse) and kind in {"text/html", "text/plain"}:
            response.content = visible(response.content)
        return response


class PageUsers(_ForPages, AuthenticationMiddleware):
    """The user of the session."""


class PageMessages(_ForPages, MessageMiddleware):
    """Messages shown on the next page."""


def too_old(user_agent: str) -> str | None:
    """Return the version of a client, from its header User-Agent, if it is older than OLDEST_CLIENT; else None."""
    found = _CLIENT_VERSION.match(user_agent)
    return found[1] if found and tuple(int(number) for number in found.groups()[1:]) < OLDEST_CLIENT else None


def oldest_client() -> str:
    """Return OLDEST_CLIENT as people write it."""
    return ".".join(str(number) for number in OLDEST_CLIENT)
