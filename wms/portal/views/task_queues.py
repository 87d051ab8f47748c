"""The task queues that a user may see, and the page of one."""

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from matching.queries.task_queues import newest_jobs, standing_of, task_queue_page
from taskqueues.models import TaskQueue
from wms.jobs.models import Job
from wms.jobs.queries import with_surroundings
from wms.kernel.db import database_now
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.pages import show, signed_in
from wms.portal.presentation.task_queues import task_queue_list, task_queue_view
from wms.portal.presentation.why import why_view
from wms.portal.views.waiting import explained_at, revision_of_waiting


def _revision_of_list(request: HttpRequest) -> Sequence[object]:
    return (*revisions.demand_of_vos(signed_in(request)), *revisions.usage())


def _revision(request: HttpRequest, pk: int) -> Sequence[object]:  # noqa: ARG001 - as the view
    return (*revision_of_waiting(signed_in(request)), *revisions.usage())


@login_required
@require_safe
@live(_revision_of_list)
def task_queue_list_page(request: HttpRequest) -> HttpResponse:
    """Show the reader's task queues, or all that it may see, by priority."""
    is_own = request.GET.get("whose") != "all"
    page = task_queue_page(signed_in(request), only_own=is_own, number=_number_in(request), now=database_now())
    return show(request, "portal/task_queues.html", {"list": task_queue_list(page), "is_own": is_own})


@login_required
@require_safe
@live(_revision)
def task_queue_detail_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one task queue; 404 if the user may not see it, or no job waits in it any more."""
    user = signed_in(request)
    visible = TaskQueue.objects.visible_to(user).select_related("owner", "group", "vo")
    task_queue = get_object_or_404(visible, pk=pk)
    standing, job_ids = standing_of(task_queue, now=database_now()), newest_jobs(task_queue)
    job = with_surroundings(Job.objects.visible_to(user)).filter(pk__in=job_ids[:1]).first()
    if standing is None or job is None:
        raise Http404("No job waits in this task queue any more.")
    explained, site, error = explained_at(request, job, task_queue_id=pk)
    view = task_queue_view(standing, job_ids=job_ids)
    context = {"task_queue": view, "why": why_view(explained, reader=user.username, site=site, site_error=error)}
    return show(request, "portal/task_queue.html", context)


def _number_in(request: HttpRequest) -> int:
    text = request.GET.get("page", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
