"""What is refused before any view sees it, and what only pages need."""

import re
from collections.abc import Awaitable, Callable
from http import HTTPStatus

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
from wms.kernel.handlers import API, api_error
from wms.kernel.rest import has_bearer_token

#: Cache-Control of what is for its caller alone.
NOT_KEPT = "private, no-store"
#: Methods that a client may safely be redirected with.
READS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class TrustedTransport:
    """Believe X-Forwarded-Proto of trusted proxies only, and refuse below /api/ what did not come over HTTPS.

    Pages are redirected by Django's SecurityMiddleware, which comes next. A redirect of a machine would come too late,
    for its token was sent in clear, and would turn what it writes into a read.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if "HTTP_X_FORWARDED_PROTO" in request.META and not comes_from_proxy(request):
            del request.META["HTTP_X_FORWARDED_PROTO"]
        if settings.WMS_HTTPS and request.path.startswith(API) and not request.is_secure():
            return api_error(HTTPStatus.FORBIDDEN, "https_required", "This server is asked by https:// only.")
        return self.get_response(request)


class PrivateAnswers:
    """Have no cache keep an answer that does not say itself who may: most hold what only their caller may see."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        response = self.get_response(request)
        response.headers.setdefault("Cache-Control", NOT_KEPT)
        return response


class StrictRequests:
    """Refuse addresses that no view can mean, and bodies that none would read as they were meant.

    A NUL character in the path or the query string is 400: PostgreSQL stores none, so a look-up would fail as 500.

    A writing request below /api/ without the slash at the end is 404: Django would redirect it, and clients follow
    a redirect with GET, so that a submission would seem to succeed as a list of jobs.

    A body without its length (chunked) is 400 and one that is compressed 415: Django would read the first as empty, and
    the second as what it is not.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request, or raise what handler400 answers."""
        if "\x00" in request.path or _holds_nul(request):
            detail = "The address holds a NUL character (%00), which cannot be stored; leave it out."
            if not request.path.startswith(API):
                raise BadRequest(detail)
            return api_error(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        refusal = _refusal_of_writing(request) if request.method not in READS and request.path.startswith(API) else None
        return refusal or self.get_response(request)


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
        detail = f'The encoding "{encoding[:40]}" of a body is not taken; send it as it is, without Content-Encoding.'
        return api_error(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", detail)
    return None


def _holds_nul(request: HttpRequest) -> bool:
    # The cheap look first: nearly no query string has an encoded NUL, and parsing all of them would cost each request.
    query = str(request.META.get("QUERY_STRING", ""))
    return "%00" in query or "\x00" in query


#: In UTF-8: control characters but tabs and ends of lines, C1 controls, what turns the direction of a text (marks,
#: embeddings, overrides, isolates), and the separators of lines and paragraphs.
_STEERING = re.compile(
    rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xd8\x9c|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)


def visible(text: bytes) -> bytes:
    r"""Return a text in UTF-8 with such characters written as ``\\x1b`` or ``\\u202e``, as in logs and by ``wms``."""
    return _STEERING.sub(lambda found: ascii(found.group().decode())[1:-1].encode(), text)


class _ForPages(MiddlewareMixin):
    """Base of middleware that requests with a bearer token below /api/ pass by.

    Such a request is recognised by its token alone, never by a session, and its answer is shown by no browser: a third
    of what a match costs outside of the database would be spent on cookies that are not there and rules for scripts.
    """

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        """Answer the request, with a token as if this middleware were not there."""
        if request.path.startswith(API) and has_bearer_token(request):
            return self.get_response(request)
        return super().__call__(request)


class PageRules(_ForPages, CSPMiddleware):
    """What a page may load and run."""


class PageSessions(_ForPages, SessionMiddleware):
    """Sessions by cookie."""


class PageCharacters(_ForPages):
    """Whatever payloads, users and sites wrote is shown as it is: no character of it turns or hides what stands beside.

    Here and not in templates: the admin's are Django's own, and each page would have to think of it. Also in the fields
    of forms, which send back what they show.
    """

    def process_response(self, _request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Write such characters visibly, in pages and texts."""
        kind = response.get("Content-Type", "").partition(";")[0]
        if isinstance(response, HttpResponse) and kind in {"text/html", "text/plain"}:
            response.content = visible(response.content)
        return response


class PageUsers(_ForPages, AuthenticationMiddleware):
    """Who is logged in by the session."""


class PageMessages(_ForPages, MessageMiddleware):
    """What the next page says."""
