"""Submissions: the list of the user's own, the page of one, and the outputs of its jobs as one archive."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import SubmissionCanary, SubmissionContent
from wms.jobs.queries import submissions
from wms.jobs.queries.failures import failures
from wms.jobs.queries.retention import removed_of
from wms.jobs.queries.submissions import CountedSubmission
from wms.jobs.services.output_archives import packed_outputs
from wms.kernel.clock import current_time
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.pages import page_of, show, signed_in
from wms.portal.presentation.submission import row_of, submission_view
from wms.portal.search import query_of
from wms.portal.views.lost_output import lost_output
from wms.portal.views.waiting import waiting_in_short

#: Failed jobs that are grouped on the page of a submission.
MOST_FAILED: Final = 1000
#: Seconds after which an open page is made anew although no job has changed: the rate changes too.
ANEW_AFTER_S: Final = 300


def _revision_of_list(request: HttpRequest) -> Sequence[object]:
    return revisions.own_jobs(signed_in(request))


def _revision(request: HttpRequest, pk: UUID) -> Sequence[object]:  # noqa: ARG001 - as the view
    period = int(current_time().timestamp() // ANEW_AFTER_S)
    return (*revisions.of_submission(pk), period)


@login_required
@require_safe
@live(_revision_of_list)
def submission_list(request: HttpRequest) -> HttpResponse:
    """Show the user's own submissions, the newest first."""
    user = signed_in(request)
    page = page_of(lambda **extent: submissions.of_owner(user, **extent), request.GET, key=_key)
    context = {
        "rows": [row_of(each) for each in submissions.counted(page.rows)],
        "page": page,
        "is_first_page": not request.GET,
    }
    return show(request, "portal/submissions.html", context)


@login_required
@require_safe
@live(_revision)
def submission_page(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one submission; 404 if the user may not see it."""
    user = signed_in(request)
    counted, now = _visible(pk, user), current_time()
    failed, done = (
        JobFilterSet({"job_group_id": str(pk), "status": each}) for each in (JobStatus.FAILED, JobStatus.DONE)
    )
    view = submission_view(
        counted,
        jobs=submissions.jobs_of(pk, now=now),
        failures=failures(failed, by=user, done=done, newest=MOST_FAILED) if JobStatus.FAILED in counted.jobs else None,
        warnings=submissions.warnings_of(pk),
        canary=SubmissionCanary.objects.filter(pk=pk).first() if JobStatus.HELD in counted.jobs else None,
        removed_after_days=removed_of(counted.content.vo_id),
        now=now,
    )
    words = {"job_group_id": str(pk)}
    context = {
        "submission": view,
        "lost_output": lost_output(words, by=user) if JobStatus.DONE in counted.jobs else None,
        "waiting": waiting_in_short(words, by=user) if JobStatus.WAITING in counted.jobs else [],
        "why_query": query_of(words),
    }
    return show(request, "portal/submission.html", context)


@login_required
@require_safe
def submission_outputs(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    """Send the outputs of all jobs as one archive, which is made while it is sent."""
    user = signed_in(request)
    content = _visible(pk, user).content
    outputs = submissions.outputs_of(pk, by=user)
    if not outputs:
        messages.warning(request, "No job of this submission has an output yet, so there is nothing to download.")
        return redirect("portal:submission", pk=pk)
    name = f"outputs-{content.first_job_id}-{content.last_job_id}.tar.gz"
    return StreamingHttpResponse(
        packed_outputs(outputs, now=current_time()),
        content_type="application/gzip",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


def _key(content: SubmissionContent) -> int:
    return content.first_job_id


def _visible(pk: UUID, user: User) -> CountedSubmission:
    counted = submissions.visible_submission(pk, by=user)
    if counted is None:
        raise Http404(f"There is no submission {pk}.")
    return counted
