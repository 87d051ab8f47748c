"""Log-in by session, under the same delay as the API's."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import urlencode

from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.account.internal.stagekit import clear_login, get_pending_stage
from allauth.account.utils import perform_login
from allauth.mfa.base.views import AuthenticateView
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, resolve_url
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_http_methods

from wms.accounts import services
from wms.accounts.models import User
from wms.accounts.oidc.configuration import providers
from wms.accounts.services.second_factors import is_fresh, last_log_in, must_log_in_again, note_log_in_by_password
from wms.kernel.clock import current_time
from wms.kernel.time_texts import duration
from wms.portal.forms.log_in import LogInForm
from wms.portal.pages import signed_in

_View: TypeAlias = Callable[..., HttpResponseBase]

#: Session key between password and code: the user's session hash at the time of the password.
_ACCOUNT_MARK: Final = "account_mark"


class LogInView(LoginView):
    """Name and password."""

    authentication_form = LogInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Log in, or continue with the second factor; until then nobody is logged in."""
        # A new session key: whoever knew the old one has no access to the new session.
        self.request.session.cycle_key()
        user = form.get_user()
        note_log_in_by_password(self.request, user)
        response: HttpResponse = perform_login(self.request, user, redirect_url=self.get_success_url())
        remember_pending_log_in(self.request)
        remember_device(self.request, response)
        return response

    def get_context_data(self, **kwargs: object) -> dict[str, object]:
        """Return the context of the page, with the providers by which one can log in instead."""
        return super().get_context_data(**kwargs) | {"providers": providers().values()}

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Show the errors; while log-ins are delayed, with the status 429."""
        response = super().form_invalid(form)
        if isinstance(form, LogInForm) and form.retry_after_s is not None:
            response.status_code = HTTPStatus.TOO_MANY_REQUESTS
            response.headers["Retry-After"] = str(form.retry_after_s)
            services.let_device_wait(
                response,
                self.request.COOKIES,
                username=form.cleaned_data["username"],
                path="/accounts/",
                now=current_time(),
            )
        return response


class SecondFactorView(AuthenticateView):
    """The code or key after the password."""

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Answer, but restart the log-in if the password has changed meanwhile, or the user was suspended."""
        stage = get_pending_stage(request)
        if stage is not None and not _is_as_it_was(stage.login.user, request.session.get(_ACCOUNT_MARK, "")):
            clear_login(request)
            messages.warning(request, "Your password or your account has changed meanwhile; log in again.")
            return redirect(settings.LOGIN_URL)
        response: HttpResponseBase = super().dispatch(request, *args, **kwargs)
        return response

    def form_valid(self, form: Form) -> HttpResponse:
        """Log in."""
        response: HttpResponse = super().form_valid(form)
        remember_device(self.request, response)
        return response


def _is_as_it_was(user: User, mark: str) -> bool:
    return user.is_active and constant_time_compare(user.get_session_auth_hash(), mark)


def remember_pending_log_in(request: HttpRequest) -> None:
    """Store the state of the account of a log-in that needs a second factor, which ends with a change of it."""
    stage = get_pending_stage(request)
    if stage is not None:
        request.session[_ACCOUNT_MARK] = stage.login.user.get_session_auth_hash()


def remember_device(request: HttpRequest, response: HttpResponse) -> None:
    """Set the cookie by which the logged-in user's browser is known at the next log-in."""
    if isinstance(request.user, User):
        services.remember_device(response, request.user, path="/accounts/")


def after_recent_log_in(view: _View) -> _View:
    """Return *view*, refused to people without password and second factor who have not just logged in."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        user = request.user
        if isinstance(user, User) and must_log_in_again(request, user, now=current_time()):
            messages.warning(request, "For this you must have logged in just now: log out, log in, and repeat it.")
            return redirect("portal:account")
        return view(request, *args, **kwargs)

    return guarded


def to_fresh_log_in(request: HttpRequest, *, back: str) -> HttpResponse | None:
    """Return a redirect to log in again, and from there to *back*; None: the log-in is fresh (WMS_FRESH_LOG_IN_S)."""
    user = signed_in(request)
    if is_fresh(last_log_in(request, user), now=current_time()):
        return None
    age = duration(settings.WMS_FRESH_LOG_IN_S)
    can_repeat = bool(get_reauthentication_flows(user))
    first = "confirm that it is you" if can_repeat else "log out and log in"
    messages.warning(request, f"Nothing was changed: this needs a log-in of the last {age}; {first}, and repeat it.")
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}" if can_repeat else back)


@require_http_methods(["GET", "HEAD", "POST"])
def admin_log_in(request: HttpRequest) -> HttpResponse:
    """Redirect to the portal's log-in, as the admin's own has no log-in delay.

    Raises:
        PermissionDenied: the user is logged in already, without the right to the admin.
    """
    next_address = request.GET.get("next", "")
    if request.user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied
    query = urlencode({"next": next_address or resolve_url("admin:index")})
    return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{query}")
