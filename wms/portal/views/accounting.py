"""The page of accounting: jobs, CPU time and core hours of a period in a table."""

from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from wms.accounts.models import User
from wms.jobs.domain.accounting import Span
from wms.jobs.queries import accounting
from wms.jobs.queries.accounting import MOST_ROWS, AccountingReport
from wms.kernel.clock import current_time
from wms.portal.exports import csv_file
from wms.portal.forms.accounting import ReportChoice, ReportForm
from wms.portal.pages import form_context, show, signed_in
from wms.portal.presentation.accounting import report_as_csv, report_view

#: Rows of the page; the file has more.
_ROWS_OF_PAGE: Final = 500


@login_required
@require_safe
def accounting_page(request: HttpRequest) -> HttpResponse:
    """Show the table that the query string selects."""
    user = signed_in(request)
    form = ReportForm(request.GET, user=user)
    choice = form.choice()
    days, report = _report(choice, user, most=_ROWS_OF_PAGE)
    state = accounting.state()
    view = report_view(report, days, keys=choice.keys, began_at=state.began_at if state is not None else None)
    return show(
        request,
        "portal/accounting.html",
        {"report": view, **form_context(form, request.GET)},
    )


@login_required
@require_safe
def accounting_csv(request: HttpRequest) -> HttpResponse:
    """Send the table that the query string selects as CSV."""
    user = signed_in(request)
    choice = ReportForm(request.GET, user=user).choice()
    days, report = _report(choice, user, most=MOST_ROWS)
    period = f"-{days.first:%Y-%m-%d}-to-{days.last:%Y-%m-%d}" if days is not None else ""
    return csv_file(report_as_csv(report, keys=choice.keys), name=f"accounting{period}.csv")


def _report(choice: ReportChoice, user: User, *, most: int) -> tuple[Span | None, AccountingReport]:
    days = accounting.days_accounted(choice.since, choice.until, now=current_time())
    return days, accounting.report(days, by_user=user, keys=choice.keys, narrowed=choice.narrowed, most=most)
