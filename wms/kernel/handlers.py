"""Error answers outside the views: JSON in the API's shape below /api/, Django's pages elsewhere.

wms.urls names these functions as handler400, handler403, handler404 and handler500.
"""

from http import HTTPStatus

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views import defaults

from wms.kernel.protocol import API_V1
from wms.kernel.rest.errors import error_body

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
    return api_error(HTTPStatus.NOT_FOUND, "not_found", f"There is no such address; {API_V1}docs/ lists all.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer a request that failed inside the server; the cause is in its log."""
    if not request.path.startswith(API):
        return defaults.server_error(request)
    return api_error(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "The server failed; its log says why. Whether anything was changed is not known: look before you repeat it.",
    )


def api_error(status: HTTPStatus, code: str, detail: str) -> JsonResponse:
    """Return an error in the API's shape, outside Django REST framework."""
    return JsonResponse(error_body(code, detail), status=status)
