"""The Operations page: what works and what does not, for operators."""

from collections.abc import Sequence

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from pilots.models import CEHealth
from pilots.services import ce_cycle
from pilots.tasks import serve_ce
from wms.accounts.models import VO
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.operations.grid_tiles import failing_ces
from wms.operations.tiles import Tiles, all_tiles
from wms.portal.live import live
from wms.portal.pages import show, signed_in
from wms.portal.presentation.pauses import pause_choice


def _refuse_others(request: HttpRequest) -> None:
    """Answer as if there were no page, unless the reader is an operator.

    Raises:
        Http404: the reader is not.
    """
    if not signed_in(request).is_operator:
        raise Http404


def _revision(request: HttpRequest) -> Sequence[object]:
    _refuse_others(request)
    tiles = all_tiles(now=current_time())
    vars(request)["tiles"] = tiles
    return tiles


@login_required
@require_safe
@live(_revision)
def operations(request: HttpRequest) -> HttpResponse:
    """Show all tiles, those in trouble first."""
    tiles: Tiles = vars(request)["tiles"]
    in_trouble = sum(not tile.is_well for tile in (*tiles.tiles, *tiles.tasks))
    is_paused = VO.objects.filter(all_paused_until__gt=current_time()).exists()
    pause = pause_choice("all VOs", is_paused=is_paused, url=reverse("portal:pause-all"))
    return show(request, "portal/operations.html", {**tiles._asdict(), "in_trouble": in_trouble, "pause": pause})


@login_required
@require_POST
def ask_again(request: HttpRequest) -> HttpResponse:
    """End the pauses of the computing elements that fail, and ask them now."""
    _refuse_others(request)
    now = current_time()
    failing = CEHealth.objects.filter(pk__in=[health.pk for health in failing_ces(now=now)])
    ce_ids = ce_cycle.ask_again(failing, now=now)
    for ce_id in ce_ids:
        send_after_commit(serve_ce, ce_id=ce_id)
    messages.success(request, f"Computing elements that are asked again now: {len(ce_ids)}.")
    return redirect("portal:operations")
