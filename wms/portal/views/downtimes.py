"""Downtimes of a site, declared, changed and ended on its page."""

from typing import Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from matching.queries.closing import running_at
from resources.models import Downtime, Site
from resources.queries.places import level_at
from resources.queries.rights import require_may_change
from resources.services.downtimes import DowntimeError, change, declare, end
from resources.services.states import full_name
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError
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
    """Declare, change or end a downtime of a site, or of a CE or a queue of it; 404 for those who may not.

    What is refused is shown in the form again.
    """
    user, site = signed_in(request), visible_site(request, name)
    with refusals_as_404():
        require_may_change(site, user)
    if "end" in request.POST:
        return _ended(request, site, by=user)
    changed = _downtime(site, request.POST["change"]) if "change" in request.POST else None
    form = DowntimeForm(request.POST)
    if form.is_valid():
        ce, queue = form.names
        with refusals_as_404():
            level = level_at(site, ce=ce, queue=queue) if changed is None else changed.level
        try:
            with transaction.atomic(durable=True):
                if changed is None:
                    declare(level, **form.times_and_reason, by=user, now=current_time())
                else:
                    change(changed, **form.times_and_reason, by=user, now=current_time())
        except NotFoundError as error:  # withdrawn meanwhile
            raise Http404(error.detail) from error
        except DowntimeError as error:
            form.add_refusal(error)
        else:
            jobs, done = counted(running_at(level), "job"), "declared" if changed is None else "changed"
            messages.success(request, f"The downtime of the {full_name(level)} is {done}; running there: {jobs}.")
            return redirect(place_url(site))
    return shown_site(request, site, refused=Refused(downtime=form, downtime_id=changed.pk if changed else 0))


def _downtime(site: Site, key: str) -> Downtime:
    rows = Downtime.objects.filter(site=site).select_related("site", "ce__site", "queue__ce__site")
    return get_object_or_404(rows, pk=int(key) if key.isdecimal() and len(key) < MAX_DIGITS else 0)


def _ended(request: HttpRequest, site: Site, *, by: User) -> HttpResponse:
    downtime = _downtime(site, request.POST["end"])
    try:
        with transaction.atomic(durable=True):
            end(downtime, by=by, now=current_time())
    except (DowntimeError, NotFoundError) as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"The downtime of the {full_name(downtime.level)} is ended.")
    return redirect(place_url(site))
