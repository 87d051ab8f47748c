"""The list of pilots, and the page of one pilot with its log."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from matching.models import Match
from matching.queries.leases import leases_of, open_leases_of
from matching.queries.pilot_efficiency import efficiency, total_of
from pilots.domain.logs import MOST_FOUND
from pilots.filters import PilotFilterSet
from pilots.models import Pilot
from pilots.queries import MOST_SOUGHT, changeable_by, found_in, in_list, stored_log
from pilots.services.bulk import MOST_PILOTS, PilotAction, act, first_ids
from pilots.tasks import serve_ce
from resources.queries.rights import oversees_sites
from wms.accounts.models import User
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.handlers import bad_request
from wms.portal.forms.pilots import MOST_REASON, PilotActionForm
from wms.portal.live import live
from wms.portal.pages import ROWS_PER_PAGE, form_context, is_id, page_of, query_of, rows_of, show, signed_in
from wms.portal.presentation.pilots import pilot_view, question_of, result_of, row_of

#: Characters of a long log on the page, which links to the whole log.
NEWEST_LENGTH = 32 * 1024
JOBS_SHOWN = 50
#: Age of the pilots that are summed up.
TOTALS_HOURS: Final = 24


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
    """Show the visible pilots that the query string selects, newest first; those who may, drain and kill them."""
    user = signed_in(request)
    filters = PilotFilterSet(request.GET, in_list(Pilot.objects.visible_to(user)))
    page = page_of(rows_of(filters.qs), request.GET)
    context = {
        **form_context(filters.form, request.GET),
        "may_act": oversees_sites(user),
        "is_first_page_of_all": not request.GET,
        "rows": [row_of(pilot) for pilot in page.rows],
        "page": page,
    }
    return show(request, "portal/pilots.html", context)


@login_required
@require_safe
def pilot_summary(request: HttpRequest) -> HttpResponse:
    """Show the numbers of the pilots of a day that the query string selects, by site and CE.

    Raises:
        Http404: the user manages no VO and administers no site.
    """
    user = _overseer(request)
    filters = PilotFilterSet(request.GET, changeable_by(user))
    since = current_time() - timedelta(hours=TOTALS_HOURS)
    rows = efficiency(filters.qs, group_by=("site", "ce"), since=since)
    context = {**form_context(filters.form, request.GET), "rows": rows, "total": total_of(rows), "hours": TOTALS_HOURS}
    return show(request, "portal/pilot_summary.html", context)


@login_required
@require_safe
@live(_revision)
def pilot_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one pilot; 404 if the user may not see it."""
    user = signed_in(request)
    pilot = get_object_or_404(in_list(Pilot.objects.visible_to(user)).select_related("black_hole"), pk=pk)
    words = request.GET.get("contains", "")[:MOST_SOUGHT]
    log = stored_log(pilot, newest=None if words else NEWEST_LENGTH)
    view = pilot_view(pilot, leases=leases_of(pilot, actor=user, most=JOBS_SHOWN), log=log)
    found = found_in(log, words).found if words else None
    context = {"pilot": view, "words": words, "found": found, "most_found": MOST_FOUND, "most_sought": MOST_SOUGHT}
    return show(request, "portal/pilot.html", context)


@login_required
@require_POST
def act_on_pilots(request: HttpRequest) -> HttpResponse:
    """Drain or kill the selected pilots, or all that the query string selects, after a question with a reason.

    Raises:
        Http404: the user manages no VO and administers no site.
    """
    user = _overseer(request)
    form, ids = PilotActionForm(request.POST), _chosen(request, user)
    if "action" in form.errors:
        return bad_request(request, BadRequest("There is no such action."))
    if isinstance(ids, str):
        messages.error(request, ids)
        return _to_list(request)
    if not ids:
        messages.warning(request, "No living pilot that you may change is selected; nothing was done.")
        return _to_list(request)
    action = PilotAction(form.cleaned_data["action"])
    if "confirmed" not in request.POST or not form.is_valid() or not form.is_for(len(ids)):
        context = {
            "question": question_of(action, pilots=len(ids), jobs=open_leases_of(ids)),
            "form": form if "confirmed" in request.POST else None,
            "ids": request.POST.getlist("ids"),
            "is_for_all": request.POST.get("scope") == "all",
            "query": request.GET.urlencode(),
            "most_reason": MOST_REASON,
        }
        return show(request, "portal/confirm_pilots.html", context)
    changed = act(action, ids, reason=form.cleaned_data["reason"], by=user, now=current_time())
    for ce_id in changed.ce_ids:
        send_after_commit(serve_ce, ce_id=ce_id)
    messages.success(request, result_of(action, pilots=len(ids), changed=changed.pilots))
    return _to_list(request)


def _overseer(request: HttpRequest) -> User:
    """Return the reader; answer as if there were no page, unless the reader oversees sites.

    Raises:
        Http404: the reader does not.
    """
    user = signed_in(request)
    if not oversees_sites(user):
        raise Http404
    return user


def _chosen(request: HttpRequest, user: User) -> Sequence[int] | str:
    """Return the ids of the living pilots that are selected, or the sentence that refuses the selection."""
    living = changeable_by(user).filter(ended_at=None)
    if request.POST.get("scope") != "all":
        texts = request.POST.getlist("ids")
        return first_ids(living.filter(pk__in=[int(text) for text in texts[:ROWS_PER_PAGE] if is_id(text)]))
    filters = PilotFilterSet(request.GET, living)
    if not query_of(filters.form, request.GET) or filters.form.errors:
        return "Choose a filter that holds first: all pilots at once are not accepted."
    ids = first_ids(filters.qs)
    sentence = f"More than {MOST_PILOTS:,} pilots fit these filters; narrow them, for example by CE."
    return sentence if len(ids) > MOST_PILOTS else ids


def _to_list(request: HttpRequest) -> HttpResponse:
    query = request.GET.urlencode()
    return redirect(f"{reverse('portal:pilots')}{'?' if query else ''}{query}")


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
