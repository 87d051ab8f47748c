"""Every answer that refuses a caller is recorded here, so that no view can forget it."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

from django.http import HttpRequest, HttpResponse

from wms.accounts.domain import SecurityEventKind
from wms.accounts.security_log import record
from wms.accounts.services import TooManyFailuresError, WrongCredentialsError

_KIND_OF: Final[Mapping[int, SecurityEventKind]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: SecurityEventKind.CREDENTIAL_REFUSED,
        HTTPStatus.FORBIDDEN: SecurityEventKind.ACCESS_REFUSED,
        HTTPStatus.TOO_MANY_REQUESTS: SecurityEventKind.RATE_EXCEEDED,
    }
)
#: Whoever comes without any credentials is told to log in; what log-in refuses, it records itself.
_NOT_RECORDED: Final = frozenset({"not_authenticated", WrongCredentialsError.code, TooManyFailuresError.code})


class SecurityRefusals:
    """Record answers of 401, 403 and 429 in the security log.

    It stands outside of all transactions of views, which a refusal rolls back.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        answer = self.get_response(request)
        kind = _KIND_OF.get(answer.status_code)
        if kind is not None:
            data = getattr(answer, "data", None)
            code = str(data.get("code", "")) if isinstance(data, Mapping) else ""
            if code not in _NOT_RECORDED:
                record(kind, request=request, target=f"{request.method} {request.path}", code=code)
        return answer
