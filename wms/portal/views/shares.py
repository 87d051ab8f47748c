"""The shares of the reader's groups; for managers also those of all groups of a VO, side by side."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from matching.queries.member_shares import (
    MOST_GROUPS,
    MOST_GROUPS_OF_VO,
    GroupStanding,
    group_standings,
    groups_with_shares,
)
from matching.queries.next_day import next_day
from matching.queries.use_by_user import use_by_user
from wms.accounts.domain import MOST_PRIORITY
from wms.accounts.models import VO, Group, User
from wms.accounts.queries import managed_vos_of
from wms.jobs.queries import accounting
from wms.kernel.db import database_now
from wms.portal import revisions
from wms.portal.exports import csv_file
from wms.portal.forms.shares import SharesForm
from wms.portal.live import live
from wms.portal.pages import form_context, show, signed_in
from wms.portal.presentation.next_day import next_day_view
from wms.portal.presentation.shares import shares_view, vo_shares_as_csv, vo_shares_view


def _revision(request: HttpRequest) -> Sequence[object]:
    user = signed_in(request)
    is_manager = user.is_operator or revisions.scope_of(user).managed_vos
    runs = accounting.runs() if is_manager else 0
    return (*revisions.jobs_of_groups(user), *revisions.configuration(), *revisions.usage(), runs)


@login_required
@require_safe
def next_day_of_group(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the next day of the VO in simulation, with another priority of a group, below the form of the group.

    Raises:
        Http404: there is no such group in a VO that the reader manages.
    """
    vos = managed_vos_of(signed_in(request))
    groups = Group.objects.select_related("vo")
    group = get_object_or_404(groups if vos is None else groups.filter(vo__in=vos), pk=pk)
    priority = group.priority
    try:
        typed = float(request.GET.get("priority", ""))
    except ValueError:
        typed = priority
    if 0 <= typed <= MOST_PRIORITY:
        priority = typed
    day = next_day(group, priority=priority, now=database_now())
    return render(request, "portal/_next_day.html", {"day": next_day_view(day, group, priority=priority)})


@login_required
@require_safe
@live(_revision)
def shares_page(request: HttpRequest) -> HttpResponse:
    """Show the shares of the reader's groups, and all of a VO that the reader manages."""
    user, now = signed_in(request), database_now()
    form = SharesForm(request.GET, user=user)
    vo, groups = form.chosen_vo(), groups_with_shares(user)
    shown = list(groups[:MOST_GROUPS])
    beyond = groups.count() - MOST_GROUPS if len(shown) == MOST_GROUPS else 0
    context = {
        "shares": shares_view(group_standings(shown, by=user, now=now), beyond=beyond),
        **({} if vo is None else {**_of_vo(vo, user, now=now), **form_context(form, request.GET)}),
    }
    return show(request, "portal/shares.html", context)


@login_required
@require_safe
def shares_csv(request: HttpRequest) -> HttpResponse:
    """Send the shares of a VO's groups as CSV; 404 for those who manage none."""
    user = signed_in(request)
    vo = SharesForm(request.GET, user=user).chosen_vo()
    if vo is None:
        raise Http404
    return csv_file(vo_shares_as_csv(_standings(vo, user, now=database_now())), name=f"shares-{vo}.csv")


def _of_vo(vo: VO, user: User, *, now: datetime) -> Mapping[str, object]:
    groups = _standings(vo, user, now=now)
    used = use_by_user([each.group.pk for each in groups], by=user, now=now)
    beyond = _groups(vo).count() - len(groups)
    return {"table": vo_shares_view(vo, groups, used, beyond=beyond)}


def _standings(vo: VO, user: User, *, now: datetime) -> Sequence[GroupStanding]:
    return group_standings(list(_groups(vo)[:MOST_GROUPS_OF_VO]), by=user, now=now).groups


def _groups(vo: VO) -> QuerySet[Group]:
    return Group.objects.filter(vo=vo).select_related("vo").order_by("name")
