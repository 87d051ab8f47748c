"""The pages of a computing element and of a queue."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.http import require_safe

from matching.queries.closing import of_closing
from matching.queries.place_status import directing, last_runs, living_pilots
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.queries.places import level_at
from resources.queries.rights import may_change
from resources.services.states import MAX_REASON_LENGTH
from wms.accounts.queries import history_of
from wms.kernel.db import database_now
from wms.portal import revisions
from wms.portal.forms.sites import DURATIONS
from wms.portal.live import live
from wms.portal.notices import closed_at
from wms.portal.pages import refusals_as_404, show, signed_in
from wms.portal.presentation.places import ce_view, directors_view, pilot_segments, place_url, revision_of, runs_views
from wms.portal.presentation.sites import amount_labels, offered_queue, state_decision, state_view
from wms.portal.views.sites import MOST_CHANGES, MOST_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    level: ComputingElement | Queue
    site: Site
    #: Of the computing element, or the one; with CE and site loaded.
    queues: Sequence[Queue]
    may_decide: bool


def _place(request: HttpRequest, name: str, ce: str, queue: str = "") -> _Place:
    """Return the place of these names.

    Raises:
        Http404: the site serves none of the reader's VOs, or has no such place.
    """
    user = signed_in(request)
    site = get_object_or_404(Site.objects.visible_to(user), name=name)
    with refusals_as_404():
        level = level_at(site, ce=ce, queue=queue)
    may_decide = may_change(site, user)
    match level:
        case Queue():
            return _Place(level=level, site=site, queues=[level], may_decide=may_decide)
        case ComputingElement():
            queues = Queue.objects.filter(ce=level).select_related("ce__site").order_by("name")[: MOST_ROWS + 1]
            return _Place(level=level, site=site, queues=list(queues), may_decide=may_decide)
    raise AssertionError("addresses name a CE")


def _revision(request: HttpRequest, name: str, ce: str, queue: str = "") -> Sequence[object]:
    user, place = signed_in(request), _place(request, name, ce, queue)
    # Only those who may set its state are shown it.
    newest = history_of(place.level, user=user, most=1) if place.may_decide else ()
    return (
        *revisions.own_jobs(user),
        *revisions.configuration(),
        revisions.digest_of_sums(user),
        *closed_at(place.site.pk),
        *newest,
        *revision_of(directing(place.queues)),
    )


@login_required
@require_safe
@live(_revision)
def ce_page(request: HttpRequest, name: str, ce: str) -> HttpResponse:
    """Show one computing element; 404 if its site serves none of the reader's VOs."""
    return _shown(request, _place(request, name, ce))


@login_required
@require_safe
@live(_revision)
def queue_page(request: HttpRequest, name: str, ce: str, queue: str) -> HttpResponse:
    """Show one queue; 404 if its site serves none of the reader's VOs."""
    return _shown(request, _place(request, name, ce, queue))


def _shown(request: HttpRequest, place: _Place) -> HttpResponse:
    user, now, level = signed_in(request), database_now(), place.level
    vo_ids = revisions.visible_vos(user)
    pilots = living_pilots(place.queues, by=user, vo_ids=vo_ids)
    runs = last_runs(level, by=user, vo_ids=vo_ids, now=now)
    directed, queues = directing(place.queues), place.queues[:MOST_ROWS]
    number_at = {pk: each.number for pk, each in pilots.items()}
    context: dict[str, object] = {
        "level": level,
        "crumbs": _crumbs(place),
        "state": state_view(level, now=now),
        "outer_state": _outer_state(place, now=now),
        "pilots": sum(number_at.values()),
        "pilots_by_status": pilot_segments(list(pilots.values())),
        "runs": runs_views(own=runs.own, of_all=runs.all),
        "directors_ran_at": directed.ran_at,
        "directors": [directors_view(queue, directed, now=now, may_decide=place.may_decide) for queue in queues],
        "queues": [
            offered_queue(queue, pilots=number_at.get(queue.pk, 0), now=now, may_decide=False) for queue in queues
        ],
        "amounts": amount_labels(),
        "has_more": len(place.queues) > MOST_ROWS,
        "most": MOST_ROWS,
    }
    if place.may_decide:
        health = directed.health.get(level.pk if isinstance(level, ComputingElement) else level.ce_id)
        context |= {
            "contact": ce_view(health),
            "set_by": level.state_changed_by,
            "if_closed": str(of_closing(level)) if level.state_at(now) is ResourceState.ACTIVE else "",
            "decision": state_decision(level, now=now, refused=None),
            "state_url": reverse("portal:site-state", args=[place.site.name]),
            "durations": DURATIONS,
            "most_reason": MAX_REASON_LENGTH,
            "stay": True,
            "history": history_of(level, user=user, most=MOST_CHANGES),
        }
    return show(request, "portal/place.html", context)


def _crumbs(place: _Place) -> Sequence[tuple[str, str]]:
    """Return names and addresses of the levels around the place, from outside."""
    levels: list[Site | ComputingElement] = [place.site]
    if isinstance(place.level, Queue):
        levels.append(place.level.ce)
    return [("Sites", reverse("portal:sites")), *((level.name, place_url(level)) for level in levels)]


def _outer_state(place: _Place, *, now: datetime) -> Sequence[str]:
    """Return a sentence for each closed level around the place."""
    levels = [
        ("site", place.site),
        *([("computing element", place.level.ce)] if isinstance(place.level, Queue) else []),
    ]
    views = [(noun, state_view(level, now=now)) for noun, level in levels]
    return [
        f"Its {noun} is {view.name}{f': {view.reason}' if view.reason else ''}."
        for noun, view in views
        if view.name != "active"
    ]
