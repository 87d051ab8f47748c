"""Retrying failed jobs with changes, from the portal."""

from http import HTTPStatus
from uuid import uuid4

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods

from matching.services.retrying import RETRIED, RetryChanges, retry
from wms.accounts.middleware import not_counted_as_change
from wms.jobs.domain.parsing_budget import MAX_JOBS
from wms.jobs.queries.breakdown import ids_of_newest
from wms.jobs.services import sandboxes as stored_files
from wms.kernel.clock import current_time
from wms.kernel.errors import WmsError
from wms.kernel.names import counted
from wms.portal.forms.filters import asked_in
from wms.portal.forms.retrying import RetryForm
from wms.portal.pages import show, signed_in


@not_counted_as_change
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def retry_jobs(request: HttpRequest) -> HttpResponse:
    """Ask what is to be different in new jobs, and submit them in the place of the failed ones that the query finds."""
    user, now = signed_in(request), current_time()
    asked = asked_in(request.GET, by=user, now=now)
    statuses = ",".join(sorted(RETRIED.intersection(asked.statuses) or RETRIED))
    job_ids = ids_of_newest(asked.with_filters(status=statuses), by=user, at_most=MAX_JOBS + 1)
    form = RetryForm(request.POST or None, request.FILES or None, initial={"request_id": uuid4()})
    if request.method == "POST" and form.is_valid():
        try:
            uploads = [
                stored_files.upload(file, file_name=file.name, owner=user, now=now)
                for file in form.cleaned_data["input_files"]
            ]
            files = {named.file_name: stored_files.reference_of(named.sandbox) for named in uploads}
            changes = RetryChanges(fields=form.changes(), files=files, request_id=form.cleaned_data["request_id"])
            result = retry(job_ids, changes, by=user, now=now)
        except WmsError as error:
            _refuse(form, error)
        else:
            messages.success(request, f"{counted(len(result.submission.jobs), 'job')} submitted in their place.")
            if result.refused:
                left = counted(len(result.refused), "job")
                messages.warning(request, f"{left} not retried: not yours, or retried already.")
            return redirect("portal:submission", pk=result.submission.job_group_id)
    context = {"form": form, "asked": asked, "jobs": len(job_ids), "query": request.GET.urlencode()}
    status = HTTPStatus.BAD_REQUEST if form.errors else HTTPStatus.OK
    return show(request, "portal/retry.html", context, status=status)


def _refuse(form: RetryForm, error: WmsError) -> None:
    """Show an error at its field, or above the form."""
    fields = {name.removeprefix("changes."): sentences for name, sentences in error.errors.items()}
    for name, sentences in fields.items() if fields else [("", [error.detail])]:
        for sentence in sentences:
            form.add_error(name if name in form.fields else None, sentence)
