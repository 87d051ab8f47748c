"""The sites that serve the user's VOs, and the page of one, where its state is set by those who may."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.text import capfirst
from django.views.decorators.http import require_POST, require_safe

from matching.api.site_failures import SiteFailureOut
from matching.queries.closing import of_closing
from matching.queries.place_status import directing, living_pilots
from matching.queries.site_failures import failures_at, hosts_at
from matching.queries.site_status import statuses_of
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Downtime, Queue, Site
from resources.queries.places import level_at
from resources.queries.rights import may_change, require_may_change, sites_overseen_by, sites_serving_only
from resources.queries.throttles import standings
from resources.services.states import MAX_REASON_LENGTH, StateError, full_name, set_state
from resources.services.throttles import COLUMNS
from taskqueues.domain.limits import BOUNDS
from taskqueues.models import Limit
from taskqueues.queries import with_counts
from taskqueues.services.limits import managed_by
from wms.accounts.models import User
from wms.accounts.queries import HistoryEntry, history_of, managed_vos_of
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.queries.accounting import account_of_site
from wms.kernel.clock import current_time
from wms.kernel.consequences import ConfirmationNeededError, require_confirmed
from wms.kernel.db import database_now
from wms.kernel.time_texts import to_the_second
from wms.portal import revisions
from wms.portal.forms.sites import DURATIONS, DowntimeForm, PlaceStateForm
from wms.portal.forms.throttles import NewSiteLimitForm, SiteLimitForm, ThrottleForm
from wms.portal.live import live
from wms.portal.notices import closed_at, closed_for
from wms.portal.pages import refusals_as_404, show, signed_in
from wms.portal.presentation.places import directors_view, place_url, revision_of, runs_views
from wms.portal.presentation.sites import (
    DowntimeRow,
    SiteOrder,
    amount_labels,
    downtime_places,
    downtime_row,
    offered_ce,
    offered_queue,
    site_row,
    state_decision,
)
from wms.portal.presentation.throttles import limit_views, next_advertisement_at, throttle_gauge
from wms.portal.views.waiting import supply

#: Rows of a list: sites, and queues of a site.
MOST_ROWS: Final = 200
#: Sites among which the first by another order than that of their names are looked for.
MOST_SORTED: Final = 1000
#: Newest failed attempts.
MOST_FAILURES: Final = 50
#: Newest entries of a site's history.
MOST_CHANGES: Final = 5


def _revision(request: HttpRequest, **_: object) -> Sequence[object]:
    user = signed_in(request)
    return (
        *revisions.own_jobs(user),
        *revisions.configuration(),
        *closed_for(revisions.visible_vos(user)),
        revisions.digest_of_sums(user),
        supply(),
    )


@login_required
@require_safe
@live(_revision)
def site_list(request: HttpRequest) -> HttpResponse:
    """Show the sites that serve the reader's VOs, by name."""
    user, now, name = signed_in(request), database_now(), request.GET.get("name", "").strip()
    order = SiteOrder.of(request.GET.get("sort", ""))
    visible = Site.objects.visible_to(user).filter(name__icontains=name)
    by_name = visible.order_by("-name" if order.is_by_name and order.is_reversed else "name")
    sites = list(by_name[: MOST_ROWS + 1 if order.is_by_name else MOST_SORTED])
    statuses = statuses_of(sites, sums=revisions.sums_of_sites(user), own_ended=_own_ended(user), by=user, now=now)
    shown = (sites if order.is_by_name else order.sorted(sites, statuses, now=now))[:MOST_ROWS]
    context = {
        "rows": [site_row(site, statuses[site.pk], now=now) for site in shown],
        "name": name,
        "headings": order.headings(search=name),
        "most": MOST_ROWS,
        "has_more": len(sites) > MOST_ROWS,
    }
    return show(request, "portal/sites.html", context)


def _revision_of_page(request: HttpRequest, name: str) -> Sequence[object]:
    """Return values that change with the page of a site.

    Raises:
        Http404: the site serves none of the reader's VOs.
    """
    user, site, now = signed_in(request), visible_site(request, name), database_now()
    # Its sentence may name the present time.
    throttle = [replace(standing, why_closed="") for standing in standings([site], now=now).values()]
    # Only those who may set its state are shown it.
    may_decide = may_change(site, user)
    newest = _history(site, user=user, most=1) if may_decide else ()
    limits = with_counts(_limits_at(site, user)).values_list("pk", "held", "used_s", *BOUNDS) if may_decide else ()
    queues = Queue.objects.filter(ce__site=site).order_by("ce__name", "name")[:MOST_ROWS]
    return (
        *_revision(request),
        *closed_at(site.pk),
        *(downtime_row(row, now=now) for row in _downtimes(site, now=now)),
        *throttle,
        *newest,
        *limits,
        *revision_of(directing(list(queues))),
    )


@login_required
@require_safe
@live(_revision_of_page)
def site_page(request: HttpRequest, name: str) -> HttpResponse:
    """Show one site; 404 if it serves none of the reader's VOs."""
    return shown_site(request, visible_site(request, name))


@login_required
@require_POST
def set_place_state(request: HttpRequest, name: str) -> HttpResponse:
    """Set the state of a site, or of a CE or a queue of it; 404 for those who may not.

    What is refused is shown in the form again.
    """
    user, site, form = signed_in(request), visible_site(request, name), PlaceStateForm(request.POST)
    with refusals_as_404():
        require_may_change(site, user)
    if form.is_valid():
        with refusals_as_404():
            level = level_at(site, ce=form.cleaned_data["ce"], queue=form.cleaned_data["queue"])
        if _is_set(level, form, by=user):
            until = f" until {to_the_second(level.state_until)}" if level.state_until else ""
            consequence = "" if level.state == ResourceState.ACTIVE else f" {of_closing(level)}"
            messages.success(request, f"{capfirst(full_name(level))} is {level.state}{until}.{consequence}")
            return redirect(place_url(level) if form.cleaned_data["stay"] else place_url(site))
    return shown_site(request, site, refused=Refused(place=form))


def visible_site(request: HttpRequest, name: str) -> Site:
    """Return the site.

    Raises:
        Http404: it serves none of the user's VOs, and the user does not administer it.
    """
    return get_object_or_404(Site.objects.visible_to(signed_in(request)), name=name)


def _is_set(level: Site | ComputingElement | Queue, form: PlaceStateForm, *, by: User) -> bool:
    now = current_time()
    closes = level.state_at(now) is ResourceState.ACTIVE
    state, until = form.state_and_end(now=now)
    try:
        with transaction.atomic(durable=True):
            set_state(level, state=state, reason=form.cleaned_data["reason"], until=until, by=by, now=now)
            if closes and state is not ResourceState.ACTIVE and (closing := of_closing(level)).is_felt:
                require_confirmed([closing], form.confirmed)
    except StateError as error:
        form.add_refusal(error.errors)
        return False
    except ConfirmationNeededError as error:
        form.ask_to_confirm(error)
        level.refresh_from_db()
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The form of a site's page that was refused."""

    place: PlaceStateForm | None = None
    throttle: ThrottleForm | None = None
    downtime: DowntimeForm | None = None
    #: Of the downtime; 0: it is a new one.
    downtime_id: int = 0
    limit: SiteLimitForm | None = None
    #: Of the limit; 0: it is a new one.
    limit_id: int = 0


_NOTHING: Final = Refused()


def _downtimes(site: Site, *, now: datetime) -> Sequence[Downtime]:
    """Return the downtimes of a site that have not ended, the first ones."""
    # Uses index: downtime_of_site
    rows = Downtime.objects.filter(site=site, ends_at__gt=now).order_by("begins_at", "pk")
    return list(rows.select_related("site", "ce__site", "queue__ce__site")[:MOST_ROWS])


def _downtime_rows(site: Site, *, refused: Refused, now: datetime, may_decide: bool) -> Sequence[DowntimeRow]:
    forms = {refused.downtime_id: refused.downtime}
    return [
        downtime_row(row, now=now, refused=forms.get(row.pk), may_decide=may_decide)
        for row in _downtimes(site, now=now)
    ]


def _limits_at(site: Site, user: User) -> QuerySet[Limit]:
    """Return the limits at the site that the user may change."""
    vos = managed_vos_of(user)
    mine = Limit.objects.all() if vos is None else Limit.objects.filter(managed_by(vos))
    return mine.filter(Q(site=site) | Q(ce__site=site)).order_by("pk")


def shown_site(request: HttpRequest, site: Site, *, refused: Refused = _NOTHING) -> HttpResponse:
    """Return the page of a site; with a refused form it is a refusal."""
    user, now = signed_in(request), database_now()
    sums, own_ended = revisions.sums_of_sites(user), _own_ended(user)
    status = statuses_of([site], sums=sums, own_ended=own_ended, by=user, now=now)[site.pk]
    may_decide = may_change(site, user)
    is_overseen = may_decide or sites_overseen_by(user).filter(pk=site.pk).exists()
    queues = list(
        Queue.objects.filter(ce__site=site).select_related("ce__site").order_by("ce__name", "name")[: MOST_ROWS + 1]
    )
    pilots = living_pilots(queues, by=user, vo_ids=revisions.visible_vos(user))
    of_queue = {pk: each.number for pk, each in pilots.items()}
    rows = [
        offered_queue(queue, pilots=of_queue.get(queue.pk, 0), now=now, may_decide=may_decide, refused=refused.place)
        for queue in queues
    ]
    account, directed = account_of_site(site, by=user, vo_ids=revisions.visible_vos(user), now=now), directing(queues)
    context = {
        "site": site_row(site, status, now=now),
        "throttle": status.throttle,
        "throttle_gauge": throttle_gauge(status.throttle),
        "next_advertisement_at": next_advertisement_at(site, status.throttle),
        "runs": runs_views(own=account.own, of_all=account.all),
        "runs_since": to_the_second(account.since),
        "directors_ran_at": directed.ran_at,
        "directors": [directors_view(queue, directed, now=now, may_decide=may_decide) for queue in queues[:MOST_ROWS]],
        "queues": rows[:MOST_ROWS],
        "has_more": len(rows) > MOST_ROWS,
        "most": MOST_ROWS,
        "amounts": amount_labels(),
        "downtimes": _downtime_rows(site, refused=refused, now=now, may_decide=may_decide),
        # Of a manager's VOs and of others.
        "is_shared": is_overseen and not may_decide,
        "is_administered": site.pk in revisions.administered_sites(user),
        "failures": _failures(site, user=user, now=now) if is_overseen else None,
        **(_for_deciders(user, site, queues, of_queue, refused=refused, now=now) if may_decide else {}),
    }
    return show(
        request, "portal/site.html", context, status=HTTPStatus.OK if refused is _NOTHING else HTTPStatus.BAD_REQUEST
    )


def _failures(site: Site, *, user: User, now: datetime) -> Mapping[str, object]:
    """Return the failed attempts of the last day, by host and the newest."""
    newest = failures_at(site, user=user, now=now)[:MOST_FAILURES]
    rows = [
        {**SiteFailureOut(lease).data, "leased_at": lease.leased_at, "ended_at": lease.ended_at} for lease in newest
    ]
    return {
        "site": site.name,
        "hosts": [each for each in hosts_at(site, user=user, now=now) if each.failed][:MOST_ROWS],
        "newest": rows,
    }


def _for_deciders(
    user: User,
    site: Site,
    queues: Sequence[Queue],
    pilots: Mapping[int, int],
    *,
    refused: Refused,
    now: datetime,
) -> Mapping[str, object]:
    """Return the parts of the page that only those who may set its state are shown; *pilots*: by queue."""
    at_ce = Counter[int]()
    for queue in queues:
        at_ce[queue.ce_id] += pilots.get(queue.pk, 0)
    ces = list(ComputingElement.objects.filter(site=site).select_related("site").order_by("name")[: MOST_ROWS + 1])
    admin_urls = {
        "change_url": reverse("admin:resources_site_change", args=[site.pk]),
        "changes_url": f"{reverse('admin:accounts_configurationchange_changelist')}?{urlencode({'q': site.name})}",
    }
    return {
        "decision": state_decision(site, now=now, refused=refused.place),
        "if_closed": str(of_closing(site)) if site.state_at(now) is ResourceState.ACTIVE else "",
        "new_downtime": DowntimeForm() if refused.downtime is None or refused.downtime_id else refused.downtime,
        "downtimes_url": reverse("portal:site-downtimes", args=[site.name]),
        "downtime_places": downtime_places(ces[:MOST_ROWS], queues[:MOST_ROWS]),
        "state_url": reverse("portal:site-state", args=[site.name]),
        "ces": [offered_ce(ce, pilots=at_ce[ce.pk], now=now, refused=refused.place) for ce in ces[:MOST_ROWS]],
        "has_more_ces": len(ces) > MOST_ROWS,
        "durations": DURATIONS,
        "most_reason": MAX_REASON_LENGTH,
        "tokens_url": reverse("portal:site-tokens", args=[site.name]),
        "history": _history(site, user=user, most=MOST_CHANGES),
        "throttle_form": refused.throttle or _throttle_form(site),
        **_limits(user, site, refused=refused, now=now),
        **(admin_urls if user.is_staff else {}),
    }


def _throttle_form(site: Site) -> ThrottleForm:
    initial = {name: getattr(site, column) for name, column in COLUMNS.items()}
    return ThrottleForm(initial=initial, auto_id="throttle-%s")


def _limits(user: User, site: Site, *, refused: Refused, now: datetime) -> Mapping[str, object]:
    vos = managed_vos_of(user)
    if vos is not None and not (vos and sites_serving_only(vos).filter(pk=site.pk).exists()):
        return {}  # an administrator of the site, whose limits are those of VOs
    limits = list(
        with_counts(_limits_at(site, user)).select_related("vo", "site", "ce__site", "group", "user")[: MOST_ROWS + 1]
    )
    is_new = refused.limit is not None and not refused.limit_id
    return {
        "may_limit": True,
        "limits": limit_views(limits[:MOST_ROWS], now=now, refused=refused.limit, refused_id=refused.limit_id),
        "has_more_limits": len(limits) > MOST_ROWS,
        "new_limit": refused.limit if is_new else NewSiteLimitForm(site=site, user=user),
    }


def _history(site: Site, *, user: User, most: int) -> Sequence[HistoryEntry]:
    """Return the newest changes of the site; its administrators are shown all, without what concerns one VO only."""
    return history_of(site, user=user, most=most, is_whole=site.pk in revisions.administered_sites(user))


def _own_ended(user: User) -> JobFilterSet:
    """Return the filters of the reader's own jobs that ended by themselves."""
    return JobFilterSet({"owner": user.get_username(), "status": f"{JobStatus.DONE},{JobStatus.FAILED}"})
