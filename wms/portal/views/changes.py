"""The changes of the configuration, for those who answer for it: the page, and the same as CSV."""

from typing import Final
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from rest_framework import serializers

from taskqueues.services.reverts import Revert, needs_fresh_log_in, reverted
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts.models import ConfigurationChange, User
from wms.accounts.queries import HistoryEntry, history_entry, history_for, managed_names
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.consequences import ConfirmationNeededError
from wms.kernel.errors import WmsError
from wms.portal.exports import as_csv
from wms.portal.forms.changes import ChangesFilterSet, RevertForm
from wms.portal.pages import filters_in, manager_of, page_of, rows_of, show
from wms.portal.views.log_in import to_fresh_log_in

#: Rows of the file.
ROWS_OF_FILE: Final = 10_000


class ChangeRowOut(serializers.Serializer[HistoryEntry]):
    """One line of the file."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    who = serializers.CharField()
    target = serializers.CharField()
    changes = serializers.SerializerMethodField()

    def get_changes(self, entry: HistoryEntry) -> str:
        """Return what was changed."""
        return "; ".join(entry.changes) or entry.kind


@login_required
@require_safe
def changes_page(request: HttpRequest) -> HttpResponse:
    """Show the newest changes that the query string selects, of VOs that the reader manages."""
    user, filters = manager_of(request), ChangesFilterSet(request.GET)
    page = page_of(rows_of(_changes(filters, user)), request.GET)
    names = managed_names(user)
    context = {
        "form": filters.form,
        "changes": [history_entry(event, vos=names) for event in page.rows],
        "page": page,
        "query": urlencode(filters_in(request.GET)),
    }
    return show(request, "portal/changes.html", context)


@login_required
@require_safe
def changes_csv(request: HttpRequest) -> HttpResponseBase:
    """Send the newest changes that the query string selects as CSV; an invalid one leads to the page."""
    user, filters = manager_of(request), ChangesFilterSet(request.GET)
    changes, names = _changes(filters, user), managed_names(user)
    if filters.form.errors:
        return HttpResponseRedirect(f"{reverse('portal:changes')}?{request.GET.urlencode()}")
    newest = changes.order_by("-id")[: ROWS_OF_FILE + 1].iterator(chunk_size=1000)
    return StreamingHttpResponse(
        as_csv((history_entry(event, vos=names) for event in newest), output=ChangeRowOut, most=ROWS_OF_FILE),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="changes.csv"'},
    )


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def revert_change(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what reverting a change does, or do it; what refuses it is shown, and what it stops is to be confirmed."""
    user = manager_of(request)
    change = get_object_or_404(history_for(user), pk=pk)
    if request.method == "POST" and needs_fresh_log_in(change):
        back = reverse("portal:change-revert", args=[pk])
        if (log_in := to_fresh_log_in(request, back=back)) is not None:
            return log_in
    form, revert, refusal = RevertForm(request.POST or None), None, ""
    try:
        with transaction.atomic(durable=True):
            revert = reverted(change, by=user)
            if form.is_valid():
                _carry_out(revert, form, by=user)
                messages.success(request, f"Change {pk} of the {change.target} is reverted: {revert.words}.")
                return redirect("portal:changes")
    except ConfirmationNeededError as error:
        form.ask_to_confirm(error)
    except WmsError as error:
        if revert is not None:
            form.add_error(None, error.detail)
        refusal = error.detail
    if revert is not None and not form.is_bound:
        form = RevertForm(initial={"reason": revert.reason})
    entry = history_entry(change, vos=managed_names(user))
    return show(request, "portal/revert.html", {"change": entry, "revert": revert, "form": form, "refusal": refusal})


def _carry_out(revert: Revert, form: RevertForm, *, by: User) -> None:
    revert.carry_out(form.cleaned_data["reason"], form.confirmed, by, current_time())
    send_after_commit(recalculate_changed_groups)


def _changes(filters: ChangesFilterSet, user: User) -> QuerySet[ConfigurationChange]:
    filters.is_valid()
    changes: QuerySet[ConfigurationChange] = filters.filter_queryset(history_for(user))
    return changes
