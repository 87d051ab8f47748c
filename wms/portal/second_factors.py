"""Addresses of second factors: the pages of allauth that are in use, and no others.

They have no namespace, because allauth refers to them by name.
"""

from collections.abc import Callable
from functools import wraps

from allauth.account.views import ReauthenticateView
from allauth.mfa.base import views as base
from allauth.mfa.recovery_codes import views as recovery_codes
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse_lazy
from django.views.decorators.cache import never_cache

from wms.accounts.models import User
from wms.kernel.compression import shows_secret
from wms.portal.pages import header_of
from wms.portal.views.log_in import LogInView, SecondFactorView, after_recent_log_in

View = Callable[..., HttpResponseBase]


def _page(view: View) -> View:
    """Return *view* for logged-in users, with the header of the portal's pages, never cached and never compressed.

    Some of these pages show keys and codes.

    NB: for unknown users allauth would store the submitted data, to continue after a log-in.
    """

    @wraps(view)
    def shown(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        response = view(request, *args, **kwargs)
        if isinstance(response, TemplateResponse) and isinstance(request.user, User):
            response.context_data = {**(response.context_data or {}), "header": header_of(request.user)}
        return response

    return shows_secret(never_cache(login_required(shown)))


def _sensitive(view: View) -> View:
    """Return the page of *view*, which allauth asks users to prove their identity for."""
    return _page(after_recent_log_in(view))


_OWN = "accounts/second-factor/"
urlpatterns: list[URLPattern] = [
    path("accounts/login/", LogInView.as_view(), name="account_login"),
    path("accounts/again/", _page(ReauthenticateView.as_view()), name="account_reauthenticate"),
    path("accounts/login/code/", SecondFactorView.as_view(), name="mfa_authenticate"),
    path("accounts/again/code/", _page(base.reauthenticate), name="mfa_reauthenticate"),
    path("accounts/again/key/", _page(webauthn.reauthenticate_webauthn), name="mfa_reauthenticate_webauthn"),
    path(_OWN, _page(base.index), name="mfa_index"),
    path(f"{_OWN}app/", _sensitive(totp.activate_totp), name="mfa_activate_totp"),
    path(f"{_OWN}app/remove/", _sensitive(totp.deactivate_totp), name="mfa_deactivate_totp"),
    path(f"{_OWN}codes/", _sensitive(recovery_codes.view_recovery_codes), name="mfa_view_recovery_codes"),
    path(f"{_OWN}codes/new/", _sensitive(recovery_codes.generate_recovery_codes), name="mfa_generate_recovery_codes"),
    path(f"{_OWN}keys/add/", _sensitive(webauthn.add_webauthn), name="mfa_add_webauthn"),
    path(
        f"{_OWN}keys/<int:pk>/remove/",
        _sensitive(webauthn.RemoveWebAuthnView.as_view(success_url=reverse_lazy("mfa_index"))),
        name="mfa_remove_webauthn",
    ),
]
