"""Pages that explain why jobs wait: a selection, and the tab on the page of one job."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_safe

from matching.domain.findings import Explanation
from matching.queries.explain.explanation import explain, explain_selection
from matching.queries.restrictions import supply_digest
from matching.queries.task_queues import standing_of
from resources.queries.places import UnknownPlaceError
from taskqueues.models import TaskQueue
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.kernel.clock import current_time
from wms.kernel.db import database_now
from wms.kernel.memo import BriefMemo
from wms.portal import revisions
from wms.portal.forms.filters import Asked, JobPageFilterSet, asked_in
from wms.portal.live import live
from wms.portal.notices import closed_for
from wms.portal.pages import show, signed_in
from wms.portal.presentation.why import SelectedQueue, WhyView, selection_view, why_view
from wms.portal.search import EVERYBODY, query_of

#: By user, and query: why the jobs of the largest task queue wait, for other pages.
_in_short: Final[BriefMemo[Sequence[SelectedQueue]]] = BriefMemo(kept_s=5, most=1000)
#: Numbers of limits, throttles and computing elements.
_supply: Final[BriefMemo[str]] = BriefMemo(kept_s=revisions.SUMS_MAX_AGE_S)


def revision_of_waiting(user: User) -> Sequence[object]:
    """Return values that change with the reasons why jobs of the VOs of *user* wait."""
    return (
        *revisions.demand_of_vos(user),
        closed_for(revisions.visible_vos(user)),
        revisions.digest_of_sums(user),
        supply(),
    )


def supply() -> str:
    """Return a text that changes with the numbers of limits, throttles and computing elements."""
    return _supply.get("digest", lambda: supply_digest(now=database_now()))


def _revision(request: HttpRequest) -> Sequence[object]:
    user = signed_in(request)
    return (*revisions.jobs_seen_by(user), *revision_of_waiting(user))


@login_required
@require_safe
@live(_revision)
def why_page(request: HttpRequest) -> HttpResponse:
    """Show why the waiting jobs of a selection wait, by task queue."""
    user = signed_in(request)
    asked = asked_in(request.GET, by=user, now=current_time())
    if asked.search.job_id is not None:
        return redirect("portal:job", pk=asked.search.job_id)
    context = {
        "selection": selection_view(
            explain_selection(_waiting_of(asked), by=user, now=database_now()),
            reader=user.username,
            words=asked.search.words,
        ),
        "query": asked.box,
        "errors": asked.errors,
        "jobs_query": query_of(asked.search.words),
    }
    return show(request, "portal/why.html", context)


def waiting_in_short(words: Mapping[str, str], *, by: User) -> Sequence[SelectedQueue]:
    """Return why the jobs of the largest task queue wait, as it was some seconds ago; nothing if they can never run.

    Args:
        words: of the query that selects the jobs, by parameter.
        by: the reader.
    """

    def explained() -> Sequence[SelectedQueue]:
        filters = JobFilterSet({**words, "status": JobStatus.WAITING.value})
        found = explain_selection(filters, by=by, now=database_now(), most=1)
        return [each for each in selection_view(found, reader=by.username, words=words).queues if not each.runs_nowhere]

    return _in_short.get((by.pk, *sorted(words.items())), explained)


def explained_at(request: HttpRequest, job: Job, *, task_queue_id: int | None) -> tuple[Explanation, str, str]:
    """Return the explanation of a job, with the queues of the site that the page asks for.

    Returns:
        The explanation, the site (empty: all), and why the site is none (empty: it is one).
    """
    site, now = request.GET.get("why_site", "").strip(), database_now()
    try:
        return explain(job, task_queue_id=task_queue_id, now=now, site=site or None), site, ""
    except UnknownPlaceError as error:
        return explain(job, task_queue_id=task_queue_id, now=now), site, error.detail


def why_of(request: HttpRequest, job: Job, *, task_queue_id: int | None) -> WhyView | None:
    """Return the explanation on the page of a job; None: it is neither Waiting nor Checking.

    The parameter ``why_site`` of the query limits the queues to those of one site.
    """
    if job.status not in {JobStatus.WAITING, JobStatus.CHECKING}:
        return None
    explained, site, error = explained_at(request, job, task_queue_id=task_queue_id)
    task_queues = TaskQueue.objects.select_related("owner", "group", "vo")
    task_queue = task_queues.filter(pk=explained.task_queue_id).first() if explained.task_queue_id else None
    standing = None if task_queue is None else standing_of(task_queue, now=database_now())
    return why_view(explained, reader=signed_in(request).username, standing=standing, site=site, site_error=error)


def _waiting_of(asked: Asked) -> JobPageFilterSet:
    """Return the filters of the selected jobs that wait; of a named submission or task queue, also jobs of others."""
    waiting = {"status": JobStatus.WAITING.value}
    names = asked.search.filters.keys()
    is_of_all = "owner" not in names and not names.isdisjoint({"job_group_id", "task_queue"})
    return asked.with_filters(**waiting, **({"owner": EVERYBODY} if is_of_all else {}))
