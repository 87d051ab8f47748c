"""Actions on jobs from the portal."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import wraps
from typing import Final
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from wms.accounts.middleware import not_counted_as_change
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.queries import breakdown
from wms.jobs.queries.breakdown import Property
from wms.jobs.services import bulk, control
from wms.kernel.clock import current_time
from wms.kernel.errors import NotFoundError, WmsError
from wms.kernel.handlers import bad_request
from wms.portal.forms.filters import Asked, asked_in
from wms.portal.pages import ROWS_PER_PAGE, is_id, show, signed_in
from wms.portal.presentation.confirmation import Confirmation, confirmation_of, refusals_of, success_of
from wms.portal.presentation.job_list import DONE_WORDS, FINAL_ACTIONS

#: Growth of the number of matching jobs, since it was shown, up to which an action is not asked back again: some jobs
#: change their status at any time.
_GROWTH: Final = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The jobs that an action is for: some of a page, or all that a query matches."""

    ids: frozenset[int]
    #: None: those of the ids.
    asked: Asked | None
    by: User

    @property
    def is_empty(self) -> bool:
        """Whether no job is selected."""
        return self.asked is None and not self.ids

    def needs_confirmation(self, action: Action) -> bool:
        """Return whether the action is asked back first."""
        return self.asked is not None or action in FINAL_ACTIONS

    def question(self, action: Action) -> Confirmation:
        """Return the question before the action.

        Raises:
            TooManyJobsError: the query matches more jobs than one request may act on.
        """
        if self.asked is None:
            return confirmation_of(action, breakdown.statuses_among(self.ids, by=self.by), total=len(self.ids))
        found = breakdown.breakdown(self.asked.filters, Property.STATUS, by=self.by, newest=bulk.MAX_JOBS)
        if not found.is_whole or found.jobs > bulk.MAX_JOBS:
            sentence = f"More than {bulk.MAX_JOBS:,} jobs match; narrow the query, for example by since: and before:."
            raise bulk.TooManyJobsError(sentence)
        return confirmation_of(action, found.parts, total=found.jobs)

    def act(self, action: Action) -> bulk.BulkResult:
        """Perform the action."""
        now = current_time()
        if self.asked is None:
            return bulk.act_on(action, self.ids, by=self.by, now=now)
        return bulk.act_on_found(action, self.asked.filters, by=self.by, now=now)


def _readable(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Answer 400 to requests that no page sends, without the traceback that Django would log."""

    @wraps(view)
    def answered(request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except BadRequest as error:
            return bad_request(request, error)

    return answered


@not_counted_as_change
@login_required
@require_POST
@_readable
def act_on_job(request: HttpRequest, pk: int) -> HttpResponse:
    """Apply the button's action to one job, and show it again."""
    action = _action(request)
    try:
        control.apply_to_one(action, pk, by=signed_in(request), now=current_time())
    except NotFoundError as error:
        raise Http404(error.detail) from error
    except WmsError as error:
        messages.error(request, error.detail)
    else:
        messages.success(request, f"Job {pk}: {DONE_WORDS[action]}.")
    return redirect("portal:job", pk=pk)


@not_counted_as_change
@login_required
@require_POST
@_readable
def act_on_jobs(request: HttpRequest) -> HttpResponse:
    """Apply an action to the selected jobs, or to all that the query matches, and show the list or submission.

    An action that cannot be undone, or is for all that match, is asked back first.
    """
    action, selection = _action(request), _selection(request)
    if selection.is_empty:
        messages.warning(request, "No job is selected: select the jobs first.")
        return _back(request)
    try:
        if selection.needs_confirmation(action):
            question = selection.question(action)
            if not _is_confirmed(request, question):
                return _ask(request, question, selection)
        result = selection.act(action)
    except WmsError as error:
        messages.error(request, error.detail)
        return _back(request)
    if sentence := success_of(action, result):
        messages.success(request, sentence)
    for sentence in refusals_of(action, result):
        messages.error(request, sentence)
    return _back(request)


def _is_confirmed(request: HttpRequest, question: Confirmation) -> bool:
    """Return whether the question was answered, and for about as many jobs as there are now."""
    shown = request.POST.get("shown", "")
    if "confirmed" not in request.POST or not is_id(shown):
        return False
    if question.total <= int(shown) * (1 + _GROWTH):
        return True
    sentence = f"Nothing was done: {question.total:,} jobs match now instead of {int(shown):,}. Please confirm again."
    messages.warning(request, sentence)
    return False


def _ask(request: HttpRequest, question: Confirmation, selection: Selection) -> HttpResponse:
    context = {
        "question": question,
        "ids": sorted(selection.ids),
        "asked": selection.asked,
        "query": request.GET.urlencode(),
        "submission": _submission(request),
    }
    return show(request, "portal/confirm.html", context)


def _back(request: HttpRequest) -> HttpResponse:
    """Lead back to the page of the submission whose button was pressed, else to the list."""
    if submission := _submission(request):
        return redirect("portal:submission", pk=submission)
    query = request.GET.urlencode()
    return HttpResponseRedirect(f"{reverse('portal:jobs')}{'?' if query else ''}{query}")


def _submission(request: HttpRequest) -> UUID | None:
    """Return the submission whose page has the button; None: another page has it."""
    with suppress(ValueError):
        return UUID(request.POST.get("submission", ""))
    return None


def _action(request: HttpRequest) -> Action:
    try:
        return Action(request.POST.get("action", ""))
    except ValueError as error:
        raise BadRequest("There is no such action.") from error


def _selection(request: HttpRequest) -> Selection:
    user = signed_in(request)
    if request.POST.get("scope") != "all":
        return Selection(ids=_ids(request), asked=None, by=user)
    query = QueryDict(mutable=True)
    query["q"] = request.POST.get("q", "")
    asked = asked_in(query, by=user, now=current_time())
    if asked.errors or asked.search.job_id is not None:
        # Without what is wrong in it, the query would match more jobs than were meant.
        raise BadRequest("The query is not that of a list; open the list again.")
    return Selection(ids=frozenset(), asked=asked, by=user)


def _ids(request: HttpRequest) -> frozenset[int]:
    texts = request.POST.getlist("ids")
    if len(texts) > ROWS_PER_PAGE or not all(map(is_id, texts)):
        raise BadRequest("The ids are not those of one page; select the jobs again.")
    return frozenset(map(int, texts))
