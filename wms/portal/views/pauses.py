"""Pauses of matching: of one VO by its managers, and of all by operators."""

from collections.abc import Callable
from datetime import datetime
from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from wms.accounts.models import VO
from wms.accounts.models.people import VOQuerySet
from wms.accounts.services.pauses import PauseError, set_pause, set_pause_of_all
from wms.jobs.queries.pauses import jobs_of, of_pause
from wms.kernel.clock import current_time
from wms.kernel.consequences import ConfirmationNeededError, require_confirmed
from wms.kernel.time_texts import to_the_second
from wms.portal.forms.pauses import PauseForm
from wms.portal.pages import show, signed_in


@login_required
@require_POST
def pause_vo(request: HttpRequest, name: str) -> HttpResponse:
    """Pause matching for a VO, or end its pause; 404 for those who do not manage it."""
    user, now = signed_in(request), current_time()
    vo = get_object_or_404(VO.objects.managed_by(user), name=name)

    def change(until: datetime | None, reason: str) -> None:
        set_pause(vo, until=until, reason=reason, by=user, now=now)

    asked = _change(request, change, whose=vo.name, vos=VO.objects.filter(pk=vo.pk), now=now)
    return asked or redirect("portal:home")


@login_required
@require_POST
def pause_all(request: HttpRequest) -> HttpResponse:
    """Pause matching for all VOs, or end that.

    Raises:
        Http404: the user is no operator.
    """
    user, now = signed_in(request), current_time()
    if not user.is_operator:
        raise Http404

    def change(until: datetime | None, reason: str) -> None:
        set_pause_of_all(until=until, reason=reason, by=user, now=now)

    asked = _change(request, change, whose="all VOs", vos=VO.objects.all(), now=now)
    return asked or redirect("portal:operations")


def _change(
    request: HttpRequest,
    change: Callable[[datetime | None, str], None],
    *,
    whose: str,
    vos: VOQuerySet,
    now: datetime,
) -> HttpResponse | None:
    """Change a pause as the form says, and say what has changed or what is wrong.

    A pause that makes jobs wait is asked about first: then the page that asks is returned.
    """
    form = PauseForm(request.POST)
    if not form.is_valid():
        for errors in form.errors.values():
            messages.error(request, " ".join(map(str, errors)))
        return None
    reason, until = form.reason_and_end(now=now)
    try:
        with transaction.atomic(durable=True):
            change(until, reason)
            if until is not None and (stopped := of_pause(vos, whose=whose)).is_felt:
                require_confirmed([stopped], form.confirmed)
    except PauseError as error:
        messages.error(request, error.detail)
        return None
    except ConfirmationNeededError as error:
        form.ask_to_confirm(error)
        return show(request, "portal/confirm_pause.html", {"form": form, "whose": whose}, status=HTTPStatus.BAD_REQUEST)
    if until is None:
        still = [vo.why_paused(now) for vo in vos.paused_after(now).order_by("name")]
        sentence = f"The pause of {whose} is ended." if still else f"Matching for {whose} goes on."
        messages.success(request, f"{sentence} {'. '.join(map(capfirst, still))}{'.' * bool(still)}".strip())
        return None
    running, waiting = jobs_of(vos)
    numbers = f"Jobs: {waiting:,} waiting, {running:,} running, which go on."
    messages.success(request, f"Matching for {whose} is paused until {to_the_second(until)}. {numbers}")
    return None
