"""The list of jobs."""

from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from wms.jobs import queries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries.found_jobs import Extent
from wms.portal.forms.filters import JobPageFilterSet
from wms.portal.pages import filters_in, page_of, show, signed_in
from wms.portal.presentation.job_list import all_buttons, counts_of, row_of


@login_required
@require_safe
def job_list(request: HttpRequest) -> HttpResponse:
    """Show the jobs that the query string selects, newest first."""
    user, chosen = signed_in(request), filters_in(request.GET)
    filters = JobPageFilterSet(request.GET, request=request)
    page = page_of(lambda **extent: queries.listed(filters, Extent(**extent), by=user), request.GET)
    every_status = JobPageFilterSet({**chosen, "status": ""}, request=request)
    counts = counts_of(
        list(queries.summary(every_status, by=user, group_by=("status",))),
        chosen=chosen.get("status", ""),
        queries={status: urlencode({**chosen, "status": status}) for status in JobStatus},
    )
    context = {
        "form": filters.form,
        "counts": counts,
        "all_query": urlencode({name: value for name, value in chosen.items() if name != "status"}),
        "is_narrowed": bool(chosen),
        "is_first_page_of_all": not request.GET,
        "rows": [row_of(job) for job in page.rows],
        "page": page,
        "buttons": all_buttons(),
        "query": request.GET.urlencode(),
    }
    return show(request, "portal/jobs.html", context)
