"""The first page after the log-in: the user's jobs, submissions, groups, and what needs attention."""

from collections.abc import Mapping, Sequence
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from matching.queries.explain.unmatched import unmatched_jobs_of
from matching.queries.shares import GroupPortion, portions_of
from matching.queries.site_status import statuses_of
from matching.queries.vo_standing import VOStanding, standings_of_vos
from resources.models import Site
from wms.accounts.models import User
from wms.accounts.queries import groups_of
from wms.jobs import queries
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries import submissions
from wms.jobs.queries.failures import failures
from wms.jobs.queries.found_jobs import newest_in_status
from wms.kernel.clock import current_time
from wms.kernel.db import database_now
from wms.kernel.memo import BriefMemo
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.notices import closed_at, closed_for
from wms.portal.pages import show, signed_in
from wms.portal.presentation.failures import failures_view
from wms.portal.presentation.home import held_rows, portion_texts, share_rows, strip_of, vo_view
from wms.portal.presentation.sites import SiteRow, site_row
from wms.portal.presentation.submission import row_of
from wms.portal.search import query_of
from wms.portal.views.lost_output import lost_output
from wms.portal.views.waiting import waiting_in_short

#: Submissions on the page.
NEWEST: Final = 10
#: Failed jobs that are grouped.
MOST_FAILED: Final = 500
#: Held jobs whose reasons are counted.
MOST_HELD: Final = 200
#: By VOs that a user manages.
_standings: Final[BriefMemo[Sequence[VOStanding]]] = BriefMemo(kept_s=revisions.SUMS_MAX_AGE_S)
#: By VOs, configuration and counted usage.
_portions: Final[BriefMemo[Mapping[int, GroupPortion]]] = BriefMemo(kept_s=300)


def _revision(request: HttpRequest) -> Sequence[object]:
    user = signed_in(request)
    managed = [(each.vo.pk, each.holds, each.waiting) for each in _managed(user)]
    return (
        *revisions.own_demand(user),
        _shares_shown(user),
        closed_for(revisions.visible_vos(user)),
        managed,
        *_revision_of_sites(user),
    )


def _revision_of_sites(user: User) -> Sequence[object]:
    administered = sorted(revisions.administered_sites(user))
    return (*(closed_at(pk) for pk in administered), revisions.digest_of_sums(user)) if administered else ()


def _administered(user: User) -> Sequence[SiteRow]:
    """Return the sites that the user administers."""
    administered, now = revisions.administered_sites(user), database_now()
    if not administered:
        return ()
    sites = list(Site.objects.filter(pk__in=administered).order_by("name"))
    own_ended = JobFilterSet({"owner": user.username, "status": f"{JobStatus.DONE},{JobStatus.FAILED}"})
    statuses = statuses_of(sites, sums=revisions.sums_of_sites(user), own_ended=own_ended, by=user, now=now)
    return [site_row(site, statuses[site.pk], now=now) for site in sites]


def _managed(user: User) -> Sequence[VOStanding]:
    """Return the standings of the VOs that the user manages."""
    vo_ids = revisions.scope_of(user).managed_vos
    return _standings.get(vo_ids, lambda: standings_of_vos(vo_ids, now=database_now())) if vo_ids else ()


def _shares_shown(user: User) -> Sequence[object]:
    """Return the portions of the user's groups as shown: usage is counted each minute, which seldom changes them."""
    scope = revisions.scope_of(user)
    portions = _portions_in(scope.vo_ids)
    shown = [group_id for group_id, _ in scope.groups if group_id in portions]
    return sorted((group_id, *portion_texts(portions[group_id])) for group_id in shown)


@login_required
@require_safe
@live(_revision)
def home(request: HttpRequest) -> HttpResponse:
    """Show the user's jobs by status, the newest submissions, what needs attention, and the shares of the groups."""
    user = signed_in(request)
    groups = groups_of(user)
    jobs = _jobs_by_status(user)
    newest = submissions.counted(submissions.of_owner(user, at_most=NEWEST))
    failed = jobs.get(JobStatus.FAILED, 0)
    of_failed = JobFilterSet({"owner": user.username, "status": JobStatus.FAILED})
    grouped = failures(of_failed, by=user, newest=MOST_FAILED) if failed else None
    waits, holds = jobs.get(JobStatus.WAITING, 0), jobs.get(JobStatus.HELD, 0)
    unmatched = unmatched_jobs_of(user, now=database_now()) if waits else []
    held = newest_in_status(user, JobStatus.HELD, at_most=MOST_HELD) if holds else None
    context = {
        "sites": _administered(user),
        "vos": [vo_view(each, may_administer=user.is_staff, now=current_time()) for each in _managed(user)],
        "strip": strip_of(jobs),
        "submissions": [row_of(each) for each in newest],
        "failed": failed,
        "failures": None if grouped is None else failures_view(grouped, words={}),
        "failed_beyond": 0 if grouped is None else max(0, failed - grouped.jobs),
        "waiting": waiting_in_short({"owner": user.username}, by=user) if waits else [],
        "why_query": query_of(owner=user.username),
        "unmatched": unmatched,
        "lost_output": lost_output({"owner": user.username}, by=user) if jobs.get(JobStatus.DONE) else None,
        "held": [] if held is None else held_rows(held.values_list("minor_status", flat=True)),
        "held_beyond": max(0, holds - MOST_HELD),
        "shares": share_rows(groups, _portions_in(frozenset(group.vo_id for group in groups))),
        "has_group": bool(groups),
    }
    return show(request, "portal/home.html", context)


def _jobs_by_status(user: User) -> Mapping[str, int]:
    tallies = queries.summary(JobFilterSet({"owner": user.username}), by=user, group_by=("status",))
    return {str(tally.values["status"]): tally.count for tally in tallies}


def _portions_in(vo_ids: frozenset[int]) -> Mapping[int, GroupPortion]:
    if not vo_ids:
        return {}
    key = (vo_ids, revisions.last_change(*revisions.configuration()), *revisions.usage())
    return _portions.get(key, lambda: portions_of(vo_ids, now=database_now()))
