"""The page of plots: the accounting over time."""

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from wms.accounts.models import User
from wms.jobs.queries import accounting
from wms.jobs.queries.accounting import Accounted
from wms.kernel.clock import current_time
from wms.portal.exports import csv_file
from wms.portal.forms.plots import Choice, PlotForm
from wms.portal.live import live
from wms.portal.pages import form_context, show, signed_in
from wms.portal.presentation.plots import MOST_COURSES, as_csv, plots_view


def revision_of_plots(_request: HttpRequest) -> Sequence[object]:
    """Return the number of the accounting's last run."""
    return (accounting.runs(),)


@login_required
@require_safe
@live(revision_of_plots)
def plots(request: HttpRequest) -> HttpResponse:
    """Show the plots that the query string selects."""
    user, now = signed_in(request), current_time()
    form = PlotForm(request.GET, user=user)
    choice = form.choice(now=now)
    state = accounting.state()
    view = plots_view(
        _accounted(choice, user),
        choice.span,
        grouping=choice.grouping,
        began_at=state.began_at if state is not None else None,
        now=now,
    )
    return show(
        request,
        "portal/plots.html",
        {"plots": view, **form_context(form, request.GET)},
    )


@login_required
@require_safe
def plots_csv(request: HttpRequest) -> HttpResponse:
    """Send the numbers of the plots that the query string selects as CSV."""
    user, now = signed_in(request), current_time()
    choice = PlotForm(request.GET, user=user).choice(now=now)
    text = as_csv(_accounted(choice, user), choice.span, grouping=choice.grouping)
    return csv_file(text, name=f"jobs-since-{choice.span.first:%Y-%m-%d}.csv")


def _accounted(choice: Choice, user: User) -> Accounted:
    return accounting.accounted(
        choice.span, by=user, grouping=choice.grouping, group=choice.group, site=choice.site, most=MOST_COURSES
    )
