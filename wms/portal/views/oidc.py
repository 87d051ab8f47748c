"""Log-in by OpenID Connect, the accounts at providers, and the waiting room."""

from collections.abc import Callable
from functools import wraps
from http import HTTPStatus
from typing import TypeAlias

from allauth.account.decorators import reauthentication_required
from allauth.socialaccount.internal.flows.connect import validate_disconnect
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from wms.accounts.adapters import record_refusal, refuse
from wms.accounts.oidc.configuration import providers
from wms.accounts.oidc.flow import FlowProvider, finish, flow_provider
from wms.accounts.queries import groups_managed_by
from wms.accounts.security_log import has_refusal
from wms.accounts.services import log_in_delay, people
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time
from wms.kernel.errors import TooManyError, WmsError
from wms.kernel.names import listed
from wms.portal.pages import page_of, refusals_as_404, rows_of, show, signed_in
from wms.portal.views.log_in import after_recent_log_in, remember_device, remember_pending_log_in

View: TypeAlias = Callable[..., HttpResponseBase]

_asked_again: Callable[[View], View] = reauthentication_required(app="allauth.socialaccount")

#: Session key of the row of failed log-ins of the log-in that was begun last.
_ATTEMPT = "oidc_attempt"


def _reauthenticated(view: View) -> View:
    """Return *view* for users who have proved their identity just now."""
    return after_recent_log_in(_asked_again(view))


def _with_providers(view: View) -> View:
    """Return *view*, which is 404 while no provider is configured."""

    @wraps(view)
    def shown(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        if not providers():
            raise Http404
        return view(request, *args, **kwargs)

    return shown


@_with_providers
@never_cache
@require_POST
def begin(request: HttpRequest, provider: str) -> HttpResponse:
    """Begin a log-in, and send the browser to the provider."""
    found = _provider_or_404(request, provider)
    if request.user.is_authenticated:
        return redirect("portal:home")
    next_url = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(next_url, {request.get_host()}, require_https=request.is_secure())
    now = current_time()
    try:
        log_in_delay.remove_old_failures(now=now)
        attempt = log_in_delay.attempt_by_provider(found.configured.id, address=client_address(request))
        row = log_in_delay.begin(attempt, now=now)
        request.session[_ATTEMPT] = row
        address = found.begin(request, process=AuthProcess.LOGIN, next_url=next_url if is_ours else "")
    except WmsError as error:
        return _over(request, error)
    return _go_on(request, found, address)


@_with_providers
@never_cache
@login_required
@require_POST
@_reauthenticated
def connect(request: HttpRequest, provider: str) -> HttpResponse:
    """Begin to connect an account at the provider to the user's own."""
    found = _provider_or_404(request, provider)
    try:
        address = found.begin(request, process=AuthProcess.CONNECT, next_url="")
    except WmsError as error:
        return refuse(request, error.detail)
    return _go_on(request, found, address)


@_with_providers
@never_cache
@require_http_methods(["GET", "HEAD"])
def callback(request: HttpRequest, provider: str) -> HttpResponse:
    """Finish a log-in, or the connection of an account."""
    if provider not in providers():
        return refuse(request, "There is no such provider.")
    found = flow_provider(request, provider)
    try:
        response = finish(request, found)
    except WmsError as error:
        record_refusal(request, found, reason=error.code)
        return refuse(request, error.detail)
    if not has_refusal(request):
        log_in_delay.succeeded(request.session.pop(_ATTEMPT, 0))
    remember_pending_log_in(request)
    remember_device(request, response)
    return response


@_with_providers
@login_required
@require_POST
@_reauthenticated
def disconnect(request: HttpRequest, pk: int) -> HttpResponse:
    """Remove an account at a provider from the user's own."""
    user = signed_in(request)
    account = get_object_or_404(SocialAccount, pk=pk, user=user)
    try:
        validate_disconnect(request, account)
    except ValidationError:
        messages.error(request, "Without this account you could not log in any more: you have no password.")
    else:
        people.disconnect(account, by=user)
        messages.success(request, "The account is disconnected. You no longer log in by it.")
    return redirect("portal:account")


@never_cache
@login_required
@require_http_methods(["GET", "HEAD"])
def waiting(request: HttpRequest) -> HttpResponse:
    """Show people who wait who admits them."""
    user = signed_in(request)
    if not people.is_waiting(user, now=current_time()):
        return redirect("portal:home")
    vos = people.who_admits(user)
    who = f"A manager of {listed(vos, last=' or ')}" if vos else "A manager of your VO, or an operator of this server,"
    context = {"username": user.username, "since": user.waits_since, "who": who}
    return render(request, "portal/waiting.html", context)


@_with_providers
@never_cache
@login_required
@require_http_methods(["GET", "HEAD"])
def people_who_wait(request: HttpRequest) -> HttpResponse:
    """List the people whom the manager may admit or refuse."""
    user = signed_in(request)
    groups = groups_managed_by(user)
    if not (user.is_operator or groups):
        raise Http404
    page = page_of(rows_of(people.people_who_wait(user, now=current_time())), request.GET)
    return show(request, "portal/people_who_wait.html", {"page": page, "groups": groups})


@_with_providers
@login_required
@require_POST
def admit(request: HttpRequest, pk: int) -> HttpResponse:
    """Make a person who waits a member of a group."""
    group = request.POST.get("group", "")
    if not (group.isascii() and group.isdecimal() and len(group) < 19):
        raise Http404
    with refusals_as_404():
        person, joined = people.admit(pk, int(group), by=signed_in(request), now=current_time())
    messages.success(request, f"{person} is admitted, as a member of {joined}.")
    return redirect("portal:people-who-wait")


@_with_providers
@login_required
@require_POST
def refuse_person(request: HttpRequest, pk: int) -> HttpResponse:
    """Suspend a person who waits."""
    with refusals_as_404():
        person = people.refuse(pk, by=signed_in(request), now=current_time())
    messages.success(request, f"{person} is refused: the account is suspended. An operator may end that.")
    return redirect("portal:people-who-wait")


def _provider_or_404(request: HttpRequest, name: str) -> FlowProvider:
    if name not in providers():  # not by its issuer
        raise Http404
    return flow_provider(request, name)


def _go_on(request: HttpRequest, provider: FlowProvider, address: str) -> HttpResponse:
    """Send the browser to the provider by a page: a browser refuses to be redirected there by a form (form-action)."""
    return render(request, "registration/go_on.html", {"provider": provider.configured, "address": address})


def _over(request: HttpRequest, error: WmsError) -> HttpResponse:
    if not isinstance(error, TooManyError):
        return refuse(request, error.detail)
    status = HTTPStatus.TOO_MANY_REQUESTS
    response = render(request, "registration/log_in_delayed.html", {"sentence": error.detail}, status=status)
    response.headers["Retry-After"] = str(error.retry_after_s)
    return response
