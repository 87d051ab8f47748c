"""The list of leases, for managers: who ran where and when."""

from datetime import datetime
from typing import Final
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe

from matching.api.leases import LeaseRowOut
from matching.models import Match
from matching.queries.leases import leases_seen_by, newest_of
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.portal.exports import as_csv
from wms.portal.forms.leases import LeasePageFilterSet
from wms.portal.pages import filters_in, form_context, manager_of, show
from wms.portal.presentation.leases import lease_list_row_of

#: Rows of the page, and of the file.
ROWS_OF_PAGE: Final = 200
ROWS_OF_FILE: Final = 10_000


@login_required
@require_safe
def lease_list(request: HttpRequest) -> HttpResponse:
    """Show the newest leases that the query string selects."""
    user, filters = manager_of(request), LeasePageFilterSet(request.GET)
    since, until = filters.period(now=current_time())
    leases = _leases(filters, user, since, until)
    newest = list(
        newest_of(leases, since=since, most=ROWS_OF_PAGE + 1, before=_place_in(request.GET.get("before", "")))
    )
    has_more = len(newest) > ROWS_OF_PAGE
    last = newest[ROWS_OF_PAGE - 1] if has_more else None
    context = {
        "rows": [lease_list_row_of(lease) for lease in newest[:ROWS_OF_PAGE]],
        "has_more": has_more,
        "older": last and urlencode({**filters_in(request.GET), "before": f"{last.leased_at.isoformat()}_{last.pk}"}),
        "has_csv": bool(newest) and not filters.form.errors,
        "most": ROWS_OF_FILE,
        "since": since,
        "until": until,
        **form_context(filters.form, request.GET),
    }
    return show(request, "portal/leases.html", context)


@login_required
@require_safe
def leases_csv(request: HttpRequest) -> HttpResponseBase:
    """Send the newest leases that the query string selects as CSV; an invalid query string leads to the page."""
    user, filters = manager_of(request), LeasePageFilterSet(request.GET)
    since, until = filters.period(now=current_time())
    if filters.form.errors:
        return HttpResponseRedirect(f"{reverse('portal:leases')}?{request.GET.urlencode()}")
    newest = newest_of(_leases(filters, user, since, until), since=since, most=ROWS_OF_FILE + 1)
    return StreamingHttpResponse(
        as_csv(newest, output=LeaseRowOut, most=ROWS_OF_FILE),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="leases.csv"'},
    )


def _leases(filters: LeasePageFilterSet, user: User, since: datetime | None, until: datetime | None) -> QuerySet[Match]:
    leases: QuerySet[Match] = filters.filter_queryset(leases_seen_by(user, since=since, until=until))
    return leases


def _place_in(text: str) -> tuple[datetime, UUID] | None:
    """Return time and id of the last lease of the page before; None: the text is not of one."""
    moment, _, pk = text.partition("_")
    try:
        leased_at = datetime.fromisoformat(moment)
        return (leased_at, UUID(pk)) if leased_at.tzinfo is not None else None
    except ValueError:
        return None
