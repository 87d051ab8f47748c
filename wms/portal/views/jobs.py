"""The page of one job."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from pilots.queries import pilot_of_job
from wms.jobs import queries
from wms.jobs.models import Job
from wms.portal.pages import show, signed_in
from wms.portal.presentation.job_page import job_view
from wms.portal.presentation.pilots import pilot_fact
from wms.portal.views.waiting import why_of


@login_required
@require_safe
def job_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one job; 404 if the user may not see it."""
    user = signed_in(request)
    jobs = queries.with_surroundings(Job.objects.visible_to(user))
    job = get_object_or_404(jobs, pk=pk)
    task_queue_id: int | None = vars(job)["task_queue_id"]  # an annotation
    pilot = pilot_fact(pilot_of_job(job.pilot_id, actor=user))
    view = job_view(job, history=list(queries.history(job)), task_queue_id=task_queue_id, pilot=pilot)
    why = why_of(request, job, task_queue_id=task_queue_id)
    return show(request, "portal/job.html", {"job": view, "why": why})
