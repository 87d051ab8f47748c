"""Downtimes of a site, declared and ended on its page."""

from typing import Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from matching.queries.closing import running_at
from resources.models import Downtime, Site
from resources.queries.places import level_at
from resources.queries.rights import require_may_change
from resources.services.downtimes import DowntimeError, declare, end
from resources.services.states import full_name
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.names import counted
from wms.portal.forms.sites import DowntimeForm
from wms.portal.pages import refusals_as_404, signed_in
from wms.portal.presentation.places import place_url
from wms.portal.views.sites import Refused, shown_site, visible_site

#: Digits of ids are fewer.
MAX_DIGITS: Final = 19


@login_required
@require_POST
def set_downtimes(request: HttpRequest, name: str) -> HttpResponse:
    """Declare or end a downtime of a site, or of a CE or a queue of it; 404 for those who may not.

    What is refused is shown in the form again.
    """
    user, site = signed_in(request), visible_site(request, name)
    with refusals_as_404():
        require_may_change(site, user)
    if "end" in request.POST:
        return _ended(request, site, by=user)
    form = DowntimeForm(request.POST)
    if form.is_valid():
        ce, queue = form.names
        with refusals_as_404():
            level = level_at(site, ce=ce, queue=queue)
        times = {name: form.cleaned_data[name] for name in ("begins_at", "ends_at", "reason")}
        try:
            with transaction.atomic(durable=True):
                declare(level, **times, by=user, now=current_time())
        except DowntimeError as error:
            form.add_refusal(error.errors)
        else:
            jobs = counted(running_at(level), "job")
            messages.success(request, f"The downtime of the {full_name(level)} is declared; running there: {jobs}.")
            return redirect(place_url(site))
    return shown_site(request, site, refused=Refused(downtime=form))


def _ended(request: HttpRequest, site: Site, *, by: User) -> HttpResponse:
    key = request.POST["end"]
    rows = Downtime.objects.filter(site=site).select_related("site", "ce__site", "queue__ce__site")
    downtime = get_object_or_404(rows, pk=int(key) if key.isdecimal() and len(key) < MAX_DIGITS else 0)
    try:
        with transaction.atomic(durable=True):
            end(downtime, by=by, now=current_time())
    except DowntimeError as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"The downtime of the {full_name(downtime.level)} is ended.")
    return redirect(place_url(site))
