"""The access log: a line for each answer, if WMS_ACCESS_LOG is set; neither query strings nor credentials."""

import logging
import time
from collections.abc import Callable
from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import MiddlewareNotUsed
from django.http import HttpRequest, HttpResponse

logger = logging.getLogger(__name__)


def write(*, method: str, route: str, status: int, begun_at_s: float, caller: str) -> None:
    """Write the line of an answer.

    Args:
        method: of the request.
        route: the name of its address, as in the counters of /metrics; ``none``: no address is like that.
        status: of the answer.
        begun_at_s: when the request came, by the monotonic clock.
        caller: name of a user, or kind and id of a machine, such as ``pilot 7``; empty: nobody that is known.
    """
    facts = {"method": method, "route": route, "status": status, "caller": caller}
    logger.info("request.answered", extra={**facts, "duration_s": round(time.monotonic() - begun_at_s, 4)})


class AccessLog:
    """Write the lines of answers by Django; those of ``wms.kernel.fast`` write their own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        if not settings.WMS_ACCESS_LOG:
            raise MiddlewareNotUsed
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        begun_at_s = time.monotonic()
        answer = self.get_response(request)
        write(
            method=request.method or "",
            route=request.resolver_match.view_name if request.resolver_match else "none",
            status=answer.status_code,
            begun_at_s=begun_at_s,
            caller=_caller_of(request, answer),
        )
        return answer


def _caller_of(request: HttpRequest, answer: HttpResponse) -> str:
    # A session that could not be read for this answer cannot be read now.
    if answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ""
    user = getattr(request, "user", None)
    return str(user) if getattr(user, "is_authenticated", False) else ""
