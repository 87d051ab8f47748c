"""Error answers outside the views: JSON in the API's shape below /api/, Django's pages elsewhere.

wms.urls names these functions as handler400, handler403, handler404 and handler500.
"""

import sys
from http import HTTPStatus
from typing import Final

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.urls import Resolver404, resolve
from django.views import defaults

from wms.kernel.db import RETRY_AFTER_S, is_database_away
from wms.kernel.errors import is_disk_full
from wms.kernel.rest.errors import PROBLEM, error_body
from wms.wire.protocol import API_V1

#: What to do where something is unavailable, or has failed.
ADVICE: Final = "Repeat the request later; if it changes something, look first whether it has."
FAILED: Final = "The server failed; its log says why. Something may have changed: check before you repeat the request."
#: Prefix of all versions of the REST interface: what is below it never gets a page.
API = "/api/"


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django cannot parse."""
    if not request.path.startswith(API):
        return defaults.bad_request(request, exception)
    if isinstance(exception, RequestDataTooBig):
        return api_error(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", "The body is larger than this server accepts."
        )
    return api_error(HTTPStatus.BAD_REQUEST, "bad_request", f"The request cannot be read; see {API_V1}docs/.")


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request refused outside the views."""
    if not request.path.startswith(API):
        return defaults.permission_denied(request, exception)
    return api_error(HTTPStatus.FORBIDDEN, "forbidden", "You may not do this.")


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request for an address that does not exist."""
    if not request.path.startswith(API):
        return defaults.page_not_found(request, exception)
    return no_such_address(request.path)


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a request that failed inside the server; the cause is in its log."""
    if outage := outage_behind(sys.exc_info()[1]):
        code, reason = outage
        return unavailable(request, reason, code=code)
    if not request.path.startswith(API):
        return defaults.server_error(request)
    return api_error(HTTPStatus.INTERNAL_SERVER_ERROR, "internal_error", FAILED)


def outage_behind(error: BaseException | None) -> tuple[str, str] | None:
    """Return code and sentence if a request failed because the database or a disk cannot be used; None: it did not."""
    if is_database_away(error):
        return "unavailable", "The database is away at present."
    if is_disk_full(error):
        return "no_room", "The disk of the server is full; tell its operator."
    return None


def unavailable(request: HttpRequest, reason: str, *, code: str = "unavailable") -> HttpResponse:
    """Answer a request while the database or a disk cannot be used, for the reason that a sentence says."""
    if request.path.startswith(API):
        return api_error(HTTPStatus.SERVICE_UNAVAILABLE, code, f"{reason} {ADVICE}", retry_after_s=RETRY_AFTER_S)
    page = render_to_string("503.html", {"reason": reason})
    headers = {"Retry-After": str(RETRY_AFTER_S)}
    return HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


def no_such_address(path: str) -> JsonResponse:
    """Return the error for an address below /api/ that does not exist; an old one is told its new address."""
    new = API_V1 + path.removeprefix(API)
    if path != API and not path.startswith(API_V1) and (_exists(new) or _exists(f"{new}/")):
        detail = f"This address has moved: send the request to {new} instead."
    else:
        detail = f"There is no such address; {API_V1}docs/ lists all."
    return api_error(HTTPStatus.NOT_FOUND, "not_found", detail)


def is_retired(path: str) -> bool:
    """Return whether a path below /api/ has no version, and is none of those for old agents (ADR 52)."""
    if not path.startswith(API) or path.startswith(API_V1):
        return False
    return not (settings.WMS_OLD_AGENT_ADDRESSES and _exists(path))


def with_version(path: str) -> str:
    """Return the path of the same view with a version, of a path for old agents; any other path unchanged."""
    if path.startswith(API_V1) or not path.startswith(API) or is_retired(path):
        return path
    return API_V1 + path.removeprefix(API)


def _exists(path: str) -> bool:
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


def api_error(status: HTTPStatus, code: str, detail: str, *, retry_after_s: int | None = None) -> JsonResponse:
    """Return an error in the API's shape, outside Django REST framework."""
    headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return JsonResponse(error_body(status, code, detail), status=status, content_type=PROBLEM, headers=headers)
