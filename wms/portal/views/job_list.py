"""The list of jobs, its files for other programs, and failed jobs in groups."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_safe

from resources.queries.visible_sites import site_names
from wms.accounts.queries import groups_of
from wms.jobs import queries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.queries import breakdown
from wms.jobs.queries.breakdown import Property
from wms.jobs.queries.failures import failures as failures_of
from wms.jobs.queries.found_jobs import Extent
from wms.jobs.queries.sorted_jobs import Position, sorted_part
from wms.kernel.clock import current_time
from wms.kernel.memo import BriefMemo
from wms.portal import revisions
from wms.portal.exports import as_csv, as_json
from wms.portal.forms.filters import Asked, asked_in
from wms.portal.live import live
from wms.portal.pages import PAGE_PARAMETERS, ROWS_PER_PAGE, page_of, show, signed_in
from wms.portal.presentation.columns import COLUMNS, choices_of, columns_named, with_content
from wms.portal.presentation.failures import failures_view
from wms.portal.presentation.job_list import (
    MOST_PARTS,
    Counts,
    SideTable,
    bulk_buttons,
    counts_of,
    listed_job_of,
    side_table_of,
)
from wms.portal.presentation.job_menus import KEYS_HELP, Menus, menus_of, side_tabs_of
from wms.portal.presentation.job_orders import (
    Ordering,
    Pager,
    headings_of,
    ordering_of,
    orders_of,
    pager_by_id,
    pager_of,
)
from wms.portal.revisions import searched_jobs
from wms.portal.search import EVERYBODY, query_of

#: Cookie with the names of the chosen columns, and its age.
COLUMNS_COOKIE: Final = "job_columns"
_YEAR_S: Final = 365 * 24 * 3600
#: {property of the side table: its parameter of the filters}.
_PARAMETER_OF: Final[Mapping[Property, str]] = {
    Property.SITE: "site",
    Property.REASON: "minor_status",
    Property.HOST: "host",
    Property.SUBMISSION: "job_group_id",
}
#: Sites in the menu; there are some hundreds on the grid.
_MOST_SITES: Final = 500
#: Live pages ask again and again. Read again when the configuration, or the VOs of a reader, change.
_sites: Final[BriefMemo[list[str]]] = BriefMemo(kept_s=60)
#: Parameters of the pages of a sorted list: the place before which, or after which, the page is.
_OF_SORTED: Final = ("upto", "beyond")
#: Parameters of the page beside the query.
_OF_PAGE: Final = ("order", "by")


def _revision(request: HttpRequest) -> tuple[object, ...]:
    return (*revisions.searched_jobs(signed_in(request), request.GET), request.COOKIES.get(COLUMNS_COOKIE, ""))


@login_required
@require_safe
@live(_revision)
def job_list(request: HttpRequest) -> HttpResponseBase:
    """Show the jobs that the query selects, newest first unless the query string names another order."""
    asked = asked_in(request.GET, by=signed_in(request), now=current_time())
    if asked.search.job_id is not None:
        return redirect("portal:job", pk=asked.search.job_id)
    if "menu" in request.GET:
        return _after_menu(request, asked)
    return show(request, "portal/jobs.html", _context(request, asked))


def _context(request: HttpRequest, asked: Asked) -> Mapping[str, object]:
    link = _links(request)
    are_own = "owner" not in asked.search.words
    named = request.COOKIES.get(COLUMNS_COOKIE, "")
    columns = columns_named(named.split(","), are_own=are_own)
    counts = _counts(asked, link)
    ordering = ordering_of(
        request.GET.get("order", ""),
        jobs=counts.total if counts.is_whole else None,
        link=lambda name: link(asked.text, order=name),
    )
    rows, pager = _page(request, asked, ordering, link)
    side = _side_property(request)
    shown = columns if named else with_content(columns, rows)
    return {
        "title": "My jobs" if are_own else "Jobs",
        "asked": asked,
        "box": asked.box,
        "kept": _kept(request),
        "menus": _menus(asked),
        "keys": KEYS_HELP,
        "counts": counts,
        "all_query": link(asked.words_with(status="")),
        "is_everything": not asked.text and not any(name in request.GET for name in (*PAGE_PARAMETERS, *_OF_SORTED)),
        "is_narrowed": bool(asked.text),
        "all_owners_query": link(asked.words_with(owner=EVERYBODY)) if are_own else "",
        "columns": columns,
        "column_choices": choices_of(columns),
        "headings": headings_of(shown, ordering),
        "rows": [listed_job_of(job, shown) for job in rows],
        "pager": pager,
        "orders": orders_of(columns, ordering),
        "not_sorted": ordering.problem,
        "buttons": bulk_buttons(counts),
        "side": _side_table(asked, side, link),
        "side_tabs": side_tabs_of(side, link=lambda by: link(asked.text, by=by)),
        "query": request.GET.urlencode(),
        "own_query": urlencode({"q": asked.text}),
    }


def _page(
    request: HttpRequest, asked: Asked, ordering: Ordering, link: Callable[..., str]
) -> tuple[Sequence[Job], Pager]:
    if (order := ordering.order) is not None:
        upto, beyond = (Position.parse(request.GET.get(name, ""), order) for name in _OF_SORTED)
        part = sorted_part(asked.filters, order, by=asked.by, at_most=ROWS_PER_PAGE, after=beyond, before=upto)
        return part.jobs, pager_of(part, order, link=partial(link, asked.text))
    edges = {name: request.GET[name] for name in PAGE_PARAMETERS if name in request.GET}
    page = page_of(
        lambda **extent: queries.listed(asked.filters, Extent(**extent), by=asked.by),
        QueryDict(link(asked.text, **edges)),
        newest_first=ordering.newest_first,
    )
    return page.rows, pager_by_id(ordering, newer=page.newer, older=page.older)


def _counts(asked: Asked, link: Callable[..., str]) -> Counts:
    # Without the status, Deleted jobs would not be counted.
    every_status = asked.with_filters(status=",".join(JobStatus) if JobStatus.DELETED in asked.statuses else "")
    return counts_of(
        breakdown.breakdown(every_status, Property.STATUS, by=asked.by),
        chosen=asked.statuses,
        query_of_statuses=lambda statuses: link(asked.words_with(status=statuses)),
    )


def _links(request: HttpRequest) -> Callable[..., str]:
    """Return a function of a query and changed parameters of the page, which returns the query string."""

    def link(text: str, **changed: str) -> str:
        return urlencode({name: value for name, value in {"q": text, **_kept(request), **changed}.items() if value})

    return link


def _kept(request: HttpRequest) -> dict[str, str]:
    """Return the parameters of the page beside the query."""
    return {name: value for name in _OF_PAGE if (value := request.GET.get(name, ""))}


def _menus(asked: Asked) -> Menus:
    key = (revisions.last_change(*revisions.configuration()), revisions.visible_vos(asked.by))
    sites = _sites.get(key, lambda: site_names(asked.by, at_most=_MOST_SITES))
    return menus_of(asked.search.words, sites=sites, groups=[group.name for group in groups_of(asked.by)])


def _side_property(request: HttpRequest) -> Property:
    name = request.GET.get("by", "")
    return Property(name) if name in set(Property) - {Property.STATUS} else Property.SITE


def _side_table(asked: Asked, each: Property, link: Callable[..., str]) -> SideTable:
    found = breakdown.breakdown(asked.filters, each, by=asked.by)
    shown = [part.value for part in found.parts[:MOST_PARTS]]
    return side_table_of(
        found,
        each,
        label_of=breakdown.names_of_submissions(shown) if each is Property.SUBMISSION else {},
        query_of_value=lambda value: link(asked.words_with(**{_PARAMETER_OF[each]: value})),
    )


def _after_menu(request: HttpRequest, asked: Asked) -> HttpResponse:
    """Return to the list with what a menu has set: the query in its one form, and the columns in a cookie."""
    response = HttpResponseRedirect(f"{reverse('portal:jobs')}?{urlencode({'q': asked.box, **_kept(request)})}")
    if request.GET["menu"] == "columns":
        chosen = ",".join(name for name in request.GET.getlist("columns") if name in COLUMNS)
        response.set_cookie(
            COLUMNS_COOKIE,
            chosen,
            max_age=_YEAR_S,
            path=reverse("portal:jobs"),
            secure=settings.SESSION_COOKIE_SECURE,
            httponly=True,
            samesite="Lax",
        )
    return response


@login_required
@require_safe
def jobs_csv(request: HttpRequest) -> HttpResponseBase:
    """Send all jobs that the query selects as CSV."""
    return _file(request, as_csv, name="jobs.csv", content_type="text/csv; charset=utf-8")


@login_required
@require_safe
def jobs_json(request: HttpRequest) -> HttpResponseBase:
    """Send all jobs that the query selects as JSON."""
    return _file(request, as_json, name="jobs.json", content_type="application/json")


def _file(
    request: HttpRequest, written: Callable[[Iterable[Job]], Iterable[bytes]], *, name: str, content_type: str
) -> HttpResponseBase:
    asked = asked_in(request.GET, by=signed_in(request), now=current_time())
    if asked.errors:
        # The list tells what is wrong; a file of other jobs than those asked for would not.
        return HttpResponseRedirect(f"{reverse('portal:jobs')}?{request.GET.urlencode()}")
    jobs = breakdown.all_listed(asked.filters, by=asked.by)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingHttpResponse(written(jobs), content_type=content_type, headers=headers)


@login_required
@require_safe
@live(lambda request: searched_jobs(signed_in(request), request.GET))
def failures(request: HttpRequest) -> HttpResponse:
    """Show the failed jobs that the query selects, in groups."""
    asked = asked_in(request.GET, by=signed_in(request), now=current_time())
    if asked.search.job_id is not None:
        return redirect("portal:job", pk=asked.search.job_id)
    done = asked.with_filters(status=JobStatus.DONE, cause="", minor_status="", exit_code="")
    found = failures_of(asked.with_filters(status=JobStatus.FAILED), by=asked.by, done=done)
    context = {
        "asked": asked,
        "box": asked.box,
        "keys": KEYS_HELP,
        "failures": failures_view(found, words=asked.search.words),
        "list_query": query_of({**asked.search.words, "status": JobStatus.FAILED}),
    }
    return show(request, "portal/failures.html", context)
