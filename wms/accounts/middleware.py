"""Middleware of the security log, of the rate of changes, of second factors, and of people who wait to be admitted."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, TypeVar

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.signals import user_logged_out
from django.dispatch import receiver
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render

from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import User
from wms.accounts.security_log import has_refusal, record
from wms.accounts.services.access import take_changes
from wms.accounts.services.people import WAITING, WaitingError, is_waiting
from wms.accounts.services.second_factors import (
    Requirement,
    SecondFactorRequiredError,
    has_second_factor,
    has_shown_second_factor,
    needs_second_factor,
)
from wms.kernel.callers import current_request
from wms.kernel.clock import current_time
from wms.kernel.handlers import API, api_error
from wms.kernel.rates import RateExceededError

_View = TypeVar("_View", bound=Callable[..., HttpResponseBase])

_KIND_OF: Final[Mapping[int, SecurityEventKind]] = MappingProxyType(
    {
        HTTPStatus.UNAUTHORIZED: SecurityEventKind.CREDENTIAL_REFUSED,
        HTTPStatus.FORBIDDEN: SecurityEventKind.ACCESS_REFUSED,
        HTTPStatus.TOO_MANY_REQUESTS: SecurityEventKind.RATE_EXCEEDED,
    }
)
#: Code of a 401 without any credentials, which is not a refusal: the client is asked to log in.
_NOT_AUTHENTICATED: Final = "not_authenticated"
#: Addresses open to users who lack a required second factor: to set one up, or to log out.
_ENROLMENT: Final = ("/accounts/second-factor/", "/accounts/again/", "/accounts/logout/")
_SENTENCE: Final = "Your account must have a second factor; set one up first."
#: Addresses open to people who wait to be admitted.
_OF_WAITING: Final = frozenset({"/accounts/waiting/", "/accounts/logout/"})
#: For sessions opened without it, before it was set up in another.
_SHOW_IT: Final = "This session is not verified by your second factor yet; enter a code first."


@receiver(user_logged_out)
def record_log_out(*, user: User | None, request: HttpRequest, **_of_signal: object) -> None:
    """Record the end of a session."""
    if user is not None:
        record(SecurityEventKind.LOG_OUT, actor=user, request=request)


class RequiredSecondFactor:
    """Redirect users who lack a required second factor to its set-up, and refuse all other requests.

    A session opened without the second factor, before it was set up in another, is redirected to the form for its code.

    Applies to sessions only: a token was issued after sufficient proof, and has a scope.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        if settings.WMS_REQUIRE_SECOND_FACTOR == Requirement.NONE or request.path.startswith(_ENROLMENT):
            return self.get_response(request)
        user = getattr(request, "user", None)  # requests with a token skip the middleware of sessions
        if not isinstance(user, User) or not needs_second_factor(user):
            return self.get_response(request)
        if not has_second_factor(user):
            sentence, page = _SENTENCE, "mfa_index"
        elif not has_shown_second_factor(request, user):
            sentence, page = _SHOW_IT, "mfa_reauthenticate"
        else:
            return self.get_response(request)
        if request.path.startswith(API):
            return api_error(HTTPStatus.FORBIDDEN, SecondFactorRequiredError.code, sentence)
        messages.warning(request, sentence)
        return redirect(page)


class WaitingRoom:
    """Answer people who wait to be admitted with the page that says so, whatever they request.

    Applies to sessions only: they get no token, and their tokens of before are not valid while they wait.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        user = getattr(request, "user", None)  # requests with a token skip the middleware of sessions
        if not isinstance(user, User) or request.path in _OF_WAITING or not is_waiting(user, now=current_time()):
            return self.get_response(request)
        if request.path.startswith(API):
            return api_error(HTTPStatus.FORBIDDEN, WaitingError.code, WAITING)
        return redirect("portal:waiting")


_NOT_COUNTED: Final = "is_not_counted_as_change"


def not_counted_as_change(view: _View) -> _View:
    """Let ``ChangeRate`` pass the forms of *view*: its service counts, or it only ends something."""
    setattr(view, _NOT_COUNTED, True)
    return view


class ChangeRate:
    """Count each form that a user sends as a change; beyond WMS_MAX_CHANGES_PER_MINUTE it is refused (429).

    Below /api/ the services count, since a request may change many rows there, or none; so they do for views that are
    ``not_counted_as_change``.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], _args: object, _kwargs: object
    ) -> HttpResponse | None:
        """Return the refusal, or None."""
        user = getattr(request, "user", None)
        if (
            request.method != "POST"
            or request.path.startswith(API)
            or not isinstance(user, User)
            or getattr(view, _NOT_COUNTED, False)
        ):
            return None
        try:
            take_changes(1, by=user)
        except RateExceededError as error:
            context = {"sentence": error.detail, "back": request.path}
            answer = render(request, "429.html", context, status=HTTPStatus.TOO_MANY_REQUESTS)
            answer.headers["Retry-After"] = str(error.retry_after_s)
            return answer
        return None


class SecurityLog:
    """Record answers of 401, 403 and 429 in the security log, and set the current request for other events.

    It runs outside of the view's transaction, so that a roll-back does not remove the record.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Answer the request."""
        before = current_request.set(request)
        try:
            answer = self.get_response(request)
        finally:
            current_request.reset(before)
        kind = _KIND_OF.get(answer.status_code)
        if kind is not None:
            data = getattr(answer, "data", None)
            code = str(data.get("code", "")) if isinstance(data, Mapping) else ""
            if code != _NOT_AUTHENTICATED and not has_refusal(request):
                record(kind, request=request, target=f"{request.method} {request.path}", code=code)
        return answer
