"""The list of pilots, and the page of one pilot with its log."""

from collections.abc import Sequence
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from matching.models import Match
from matching.queries.leases import leases_of
from pilots.filters import PilotFilterSet
from pilots.models import Pilot
from pilots.queries import in_list, stored_log
from wms.portal.live import live
from wms.portal.pages import filters_in, page_of, rows_of, show, signed_in
from wms.portal.presentation.pilots import pilot_view, row_of

#: Characters of a long log on the page, which links to the whole log.
NEWEST_LENGTH = 32 * 1024
JOBS_SHOWN = 50


#: Columns of a pilot that change with its row in a list, and with its page.
_OF_ROW: Final = ("pk", "status", "status_reason", "host_name", "last_seen_at", "drained_at", "black_hole_id")
_OF_PAGE: Final = (
    *_OF_ROW, "tried_at", "stalled_at", "started_at", "matched_at", "ended_at", "revoked_at", "drain_reason",
    "nothing_at", "node",
)  # fmt: skip


def _revision_of_list(request: HttpRequest) -> Sequence[object]:
    pilots = PilotFilterSet(request.GET, Pilot.objects.visible_to(signed_in(request))).qs.only(*_OF_ROW)
    page = page_of(rows_of(pilots), request.GET)
    rows = [tuple(getattr(pilot, column) for column in _OF_ROW) for pilot in page.rows]
    return (*rows, page.newer, page.older)


def _revision(request: HttpRequest, pk: int) -> Sequence[object]:
    """Return values that change with the page of a pilot, but for its log, which is fetched by itself.

    Raises:
        Http404: the user may not see the pilot.
    """
    user = signed_in(request)
    visible = Pilot.objects.visible_to(user).filter(pk=pk)
    row = visible.values_list(*_OF_PAGE).first()
    if row is None:
        raise Http404
    # Uses index: a_request_of_a_pilot_gets_its_leases_once, by its first column
    leases = Match.objects.filter(pilot=pk).order_by("-leased_at", "-pk").values_list("pk", "ended_at", "job__status")
    return (*row, *leases[:JOBS_SHOWN])


@login_required
@require_safe
@live(_revision_of_list)
def pilot_list(request: HttpRequest) -> HttpResponse:
    """Show the visible pilots that the query string selects, newest first."""
    filters = PilotFilterSet(request.GET, in_list(Pilot.objects.visible_to(signed_in(request))))
    page = page_of(rows_of(filters.qs), request.GET)
    context = {
        "form": filters.form,
        "is_narrowed": bool(filters_in(request.GET)),
        "is_first_page_of_all": not request.GET,
        "rows": [row_of(pilot) for pilot in page.rows],
        "page": page,
    }
    return show(request, "portal/pilots.html", context)


@login_required
@require_safe
@live(_revision)
def pilot_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one pilot; 404 if the user may not see it."""
    user = signed_in(request)
    pilot = get_object_or_404(in_list(Pilot.objects.visible_to(user)).select_related("black_hole"), pk=pk)
    view = pilot_view(
        pilot,
        leases=leases_of(pilot, actor=user, most=JOBS_SHOWN),
        log=stored_log(pilot, newest=NEWEST_LENGTH),
    )
    return show(request, "portal/pilot.html", {"pilot": view})


@login_required
@require_safe
def pilot_log(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the newest lines, for an open page; once the pilot has ended, the page is to be reloaded."""
    pilot = get_object_or_404(Pilot.objects.visible_to(signed_in(request)), pk=pk)
    response = render(request, "portal/_pilot_log.html", {"lines": stored_log(pilot, newest=NEWEST_LENGTH).text})
    if pilot.ended_at is not None:
        response["HX-Refresh"] = "true"
    return response


@login_required
@require_safe
def whole_log(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the whole stored log, as plain text."""
    pilot = get_object_or_404(Pilot.objects.visible_to(signed_in(request)), pk=pk)
    return HttpResponse(stored_log(pilot).text, content_type="text/plain; charset=utf-8")
