"""Throttle and limits of a site, changed on its page, and its expression, tried while it is typed."""

from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST

from resources.models import Site
from resources.queries.rights import require_may_change
from taskqueues.models import Limit
from taskqueues.queries import limit_in_words
from taskqueues.services.expression_trials import tried
from taskqueues.services.limits import delete_limit, lock_limits, managed_by, mistakes_in, save_limit
from taskqueues.services.throttles import ThrottleError, set_throttle
from wms.accounts.models import User
from wms.accounts.queries import managed_vos_of
from wms.kernel.consequences import ConfirmationNeededError
from wms.kernel.db import database_now
from wms.kernel.errors import NotFoundError, TooManyError
from wms.kernel.rates import Rate, count
from wms.portal.forms.throttles import NewSiteLimitForm, SiteLimitForm, ThrottleForm
from wms.portal.pages import refusals_as_404, signed_in
from wms.portal.presentation.places import place_url
from wms.portal.views.sites import Refused, shown_site, visible_site


def _changeable(request: HttpRequest, name: str) -> Site:
    """Return the site.

    Raises:
        Http404: the user may not change it.
    """
    site = visible_site(request, name)
    with refusals_as_404():
        require_may_change(site, signed_in(request))
    return site


@login_required
@require_POST
def change_throttle(request: HttpRequest, name: str) -> HttpResponse:
    """Set the throttle of a site; 404 for those who may not. What is refused is shown in the form again."""
    site, form = _changeable(request, name), ThrottleForm(request.POST, auto_id="throttle-%s")
    if form.is_valid() and _is_throttled(site, form, by=signed_in(request)):
        messages.success(request, f"The throttle of {site} is set.")
        return redirect(place_url(site))
    site.refresh_from_db()
    return shown_site(request, site, refused=Refused(throttle=form))


def _is_throttled(site: Site, form: ThrottleForm, *, by: User) -> bool:
    try:
        with transaction.atomic(durable=True):
            reason = form.cleaned_data["reason"]
            set_throttle(site, settings=form.settings, confirmed=form.confirmed, by=by, reason=reason)
    except ThrottleError as error:
        form.add_refusal(error.errors)
    except ConfirmationNeededError as error:
        form.ask_to_confirm(error)
    else:
        return True
    return False


@login_required
@require_POST
def try_expression(request: HttpRequest, name: str) -> HttpResponse:
    """Show the value of an expression now, for the panel below its field; nothing is stored."""
    user, site = signed_in(request), _changeable(request, name)
    try:
        count(Rate.REQUESTS, user_id=user.pk)
    except TooManyError:
        return HttpResponse(status=HTTPStatus.TOO_MANY_REQUESTS)
    text = request.POST.get("requirements", "").strip()
    trial = tried(text, site=site, vo_ids=managed_vos_of(user), now=database_now()) if text else None
    return render(request, "portal/_expression_trial.html", {"trial": trial})


@login_required
@require_POST
def change_limit(request: HttpRequest, name: str) -> HttpResponse:
    """Add, change or delete a limit at a site; 404 for those who may not. What is refused is shown again."""
    user, site = signed_in(request), _changeable(request, name)
    vos = managed_vos_of(user)
    if vos is not None and not vos:
        raise Http404  # an administrator of the site: limits are of VOs
    number = request.POST.get("limit", "")
    if not number:
        form: SiteLimitForm = NewSiteLimitForm(request.POST, site=site, user=user)
        limit = Limit(site=site)
    else:
        own = Limit.objects.all() if vos is None else Limit.objects.filter(managed_by(vos))
        at_site = own.filter(site=site) | own.filter(ce__site=site)
        if not (number.isascii() and number.isdecimal() and len(number) < 19):
            raise Http404
        limit = get_object_or_404(at_site.select_related("vo", "site", "ce__site", "group", "user"), pk=int(number))
        form = SiteLimitForm(request.POST, auto_id=f"limit-{limit.pk}-%s")
        if "delete" in request.POST:
            with refusals_as_404(), transaction.atomic(durable=True):
                delete_limit(limit, by=user)
            messages.success(request, f"The limit on {limit_in_words(limit)} is deleted.")
            return redirect(place_url(site))
    if form.is_valid() and _is_saved(limit, form, vos=vos, by=user):
        messages.success(request, f"The limit on {limit_in_words(limit)} is set.")
        return redirect(place_url(site))
    return shown_site(request, site, refused=Refused(limit=form, limit_id=limit.pk or 0))


def _is_saved(limit: Limit, form: SiteLimitForm, *, vos: frozenset[int] | None, by: User) -> bool:
    pk = limit.pk
    if isinstance(form, NewSiteLimitForm):
        for name, value in form.scope.items():
            setattr(limit, name, value)
    for name, value in form.bounds.items():
        setattr(limit, name, value)
    try:
        with transaction.atomic(durable=True):
            lock_limits()
            errors: dict[str, list[str]] = {}
            for field, sentence in mistakes_in(limit, managed_vos=vos):
                errors.setdefault(field or "body", []).append(sentence)
            if not errors:
                save_limit(limit, confirmed=form.confirmed, by=by, reason=form.cleaned_data["reason"])
    except NotFoundError as error:  # deleted meanwhile
        raise Http404(error.detail) from error
    except ConfirmationNeededError as error:
        form.ask_to_confirm(error)
        limit.pk = pk  # what was written is undone
        return False
    form.add_refusal(errors)
    return not errors
