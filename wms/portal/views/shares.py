"""The shares of the user's groups: configured beside delivered."""

from collections.abc import Sequence

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from matching.queries.member_shares import group_standings, groups_with_shares
from wms.kernel.db import database_now
from wms.portal import revisions
from wms.portal.live import live
from wms.portal.pages import show, signed_in
from wms.portal.presentation.shares import shares_view


def _revision(request: HttpRequest) -> Sequence[object]:
    user = signed_in(request)
    return (*revisions.jobs_of_groups(user), *revisions.configuration(), *revisions.usage())


@login_required
@require_safe
@live(_revision)
def shares_page(request: HttpRequest) -> HttpResponse:
    """Show the shares of the reader's groups, and of those of the VOs that the reader manages."""
    user = signed_in(request)
    standings = group_standings(groups_with_shares(user), by=user, now=database_now())
    return show(request, "portal/shares.html", {"shares": shares_view(standings)})
