"""Failed jobs in groups."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_safe

from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.queries.failures import failures as failures_of
from wms.portal.forms.filters import asked_in
from wms.portal.live import live
from wms.portal.pages import show, signed_in
from wms.portal.presentation.failures import failures_view
from wms.portal.presentation.job_menus import KEYS_HELP
from wms.portal.revisions import searched_jobs
from wms.portal.search import query_of


@login_required
@require_safe
@live(lambda request: searched_jobs(signed_in(request), request.GET))
def failures(request: HttpRequest) -> HttpResponse:
    """Show the failed jobs that the query selects, in groups."""
    asked = asked_in(request.GET, by=signed_in(request), now=timezone.now())
    if asked.search.job_id is not None:
        return redirect("portal:job", pk=asked.search.job_id)
    found = failures_of(asked.with_filters(status=JobStatus.FAILED), by=asked.by)
    context = {
        "asked": asked,
        "box": asked.box,
        "keys": KEYS_HELP,
        "failures": failures_view(found, words=asked.search.words),
        "list_query": query_of({**asked.search.words, "status": JobStatus.FAILED}),
    }
    return show(request, "portal/failures.html", context)
