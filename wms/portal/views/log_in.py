"""Log-in by session, with the same brake as the API's."""

from http import HTTPStatus
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.views.decorators.http import require_http_methods

from wms.accounts import services
from wms.accounts.models import User
from wms.portal.forms.log_in import LogInForm


class LogInView(LoginView):
    """Name and password."""

    authentication_form = LogInForm
    redirect_authenticated_user = True

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """Log in, and know the browser again at the next time."""
        response = super().form_valid(form)
        user = form.get_user()
        if isinstance(user, User):
            remember_device(response, user)
        return response

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """Show what is wrong; a brake that is on says so to programs too."""
        response = super().form_invalid(form)
        if isinstance(form, LogInForm) and form.retry_after_s is not None:
            response.status_code = HTTPStatus.TOO_MANY_REQUESTS
            response.headers["Retry-After"] = str(form.retry_after_s)
        return response


def remember_device(response: HttpResponse, user: User) -> None:
    """Have the browser say at its next log-in that *user* has used it before."""
    response.set_cookie(
        services.device_cookie_name(user.username),
        services.device_cookie(user),
        max_age=services.DEVICE_COOKIE_AGE,
        path=resolve_url(settings.LOGIN_URL),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Strict",
    )


@require_http_methods(["GET", "HEAD", "POST"])
def admin_log_in(request: HttpRequest) -> HttpResponse:
    """Send who comes to the admin to the one log-in there is, for the admin's own has no brake.

    Raises:
        PermissionDenied: the user is logged in already, and may not go there.
    """
    wanted = request.GET.get("next", "")
    if request.user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied
    query = urlencode({"next": wanted or resolve_url("admin:index")})
    return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?{query}")
