"""The sites that serve the user's VOs, and the page of one."""

from collections.abc import Sequence
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from matching.queries.site_status import statuses_of
from resources.models import Queue, Site
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.kernel.db import database_now
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.notices import closed_for
from wms.portal.pages import show, signed_in
from wms.portal.presentation.sites import amount_labels, offered_queue, site_row
from wms.portal.views.waiting import supply

#: Rows of a list: sites, and queues of a site.
MOST_ROWS: Final = 200


def _revision(request: HttpRequest, **_: object) -> Sequence[object]:
    user = signed_in(request)
    return (
        *revisions.own_jobs(user),
        *revisions.configuration(),
        *closed_for(revisions.visible_vos(user)),
        revisions.digest_of_sums(user),
        supply(),
    )


@login_required
@require_safe
@live(_revision)
def site_list(request: HttpRequest) -> HttpResponse:
    """Show the sites that serve the reader's VOs, by name."""
    user, now, name = signed_in(request), database_now(), request.GET.get("name", "").strip()
    visible = Site.objects.visible_to(user).filter(name__icontains=name).order_by("name")
    sites = list(visible[: MOST_ROWS + 1])
    shown = sites[:MOST_ROWS]
    statuses = statuses_of(shown, sums=revisions.sums_of_sites(user), own_ended=_own_ended(user), by=user, now=now)
    context = {
        "rows": [site_row(site, statuses[site.pk], now=now) for site in shown],
        "name": name,
        "most": MOST_ROWS,
        "has_more": len(sites) > MOST_ROWS,
    }
    return show(request, "portal/sites.html", context)


@login_required
@require_safe
@live(_revision)
def site_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show one site; 404 if it serves none of the reader's VOs."""
    user, now = signed_in(request), database_now()
    site = get_object_or_404(Site.objects.visible_to(user), name=name)
    status = statuses_of([site], sums=revisions.sums_of_sites(user), own_ended=_own_ended(user), by=user, now=now)[
        site.pk
    ]
    queues = Queue.objects.filter(ce__site=site).select_related("ce").order_by("ce__name", "name")[: MOST_ROWS + 1]
    rows = [offered_queue(queue, now=now) for queue in queues]
    context = {
        "site": site_row(site, status, now=now),
        "queues": rows[:MOST_ROWS],
        "has_more": len(rows) > MOST_ROWS,
        "most": MOST_ROWS,
        "amounts": amount_labels(),
    }
    return show(request, "portal/site.html", context)


def _own_ended(user: User) -> JobFilterSet:
    """Return the filters of the reader's own jobs that ended by themselves."""
    return JobFilterSet({"owner": user.get_username(), "status": f"{JobStatus.DONE},{JobStatus.FAILED}"})
