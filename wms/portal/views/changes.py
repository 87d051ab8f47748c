"""The changes of the configuration, for those who answer for it: the page, and the same as CSV."""

from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse
from django.views.decorators.http import require_safe
from rest_framework import serializers

from wms.accounts.models import ConfigurationChange, User
from wms.accounts.queries import HistoryEntry, history_entry, history_for, managed_names
from wms.portal.exports import as_csv
from wms.portal.forms.changes import ChangesFilterSet
from wms.portal.pages import filters_in, manager_of, page_of, rows_of, show

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


def _changes(filters: ChangesFilterSet, user: User) -> QuerySet[ConfigurationChange]:
    filters.is_valid()
    changes: QuerySet[ConfigurationChange] = filters.filter_queryset(history_for(user))
    return changes
