"""Actions on jobs from the portal."""

from collections import Counter
from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from wms.jobs.domain.actions import Action
from wms.jobs.services import bulk, control
from wms.kernel.errors import NotFoundError, WmsError
from wms.kernel.handlers import bad_request
from wms.portal.pages import ROWS_PER_PAGE, signed_in
from wms.portal.presentation.job_list import DONE_WORDS

#: {error code: phrase}; other codes are shown unchanged.
WHY = {
    "illegal_transition": "not possible in its status",
    "reschedule_limit": "rescheduled too often",
    "not_found": "not there",
}


def _readable(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer 400 to requests that no page sends, without the traceback that Django would log."""

    @wraps(view)
    def answered(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except BadRequest as error:
            return bad_request(request, error)

    return answered


@login_required
@require_POST
@_readable
def act_on_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Apply the button's action to one job, and show it again."""
    action = _action(request)
    try:
        control.apply_to_one(action, pk, by=signed_in(request), now=timezone.now())
    except NotFoundError as error:
        raise Http404(error.detail) from error
    except WmsError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"Job {pk}: {DONE_WORDS[action]}.")
    return redirect("portal:job", pk=pk)


@login_required
@require_POST
@_readable
def act_on_jobs(request: HttpRequest) -> HttpResponse:
    """Apply an action to all selected jobs, and show the list again."""
    action, job_ids = _action(request), _ids(request)
    if not job_ids:
        messages.warning(request, "No job is selected: select the jobs first.")
    else:
        _report(request, action, bulk.act_on(action, job_ids, by=signed_in(request), now=timezone.now()))
    query = request.GET.urlencode()
    return HttpResponseRedirect(f"{reverse('portal:jobs')}{'?' if query else ''}{query}")


def _report(request: HttpRequest, action: Action, result: bulk.BulkResult) -> None:
    if result.done:
        messages.success(request, f"{result.done} job{'s' * (result.done != 1)} {DONE_WORDS[action]}.")
    for code, count in Counter(refusal.code for refusal in result.refused).items():
        ids = ", ".join(str(refusal.id) for refusal in result.refused if refusal.code == code)
        messages.error(request, f"{count} not {DONE_WORDS[action]} ({WHY.get(code, code)}): {ids}.")


def _action(request: HttpRequest) -> Action:
    try:
        return Action(request.POST.get("action", ""))
    except ValueError as error:
        raise BadRequest("There is no such action.") from error


def _ids(request: HttpRequest) -> frozenset[int]:
    texts = request.POST.getlist("ids")
    if len(texts) > ROWS_PER_PAGE or not all(text.isascii() and text.isdecimal() and len(text) < 19 for text in texts):
        raise BadRequest("The ids are not those of one page; select the jobs again.")
    return frozenset(map(int, texts))
