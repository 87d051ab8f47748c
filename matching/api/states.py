"""States of sites, computing elements and queues over REST: ban, drain, and let work again."""

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.queries.closing import of_closing
from resources.api.permissions import OverseesSites
from resources.domain.enums import ResourceState
from resources.models import Site
from resources.queries.places import level_at
from resources.queries.rights import require_may_change
from resources.services.states import MAX_REASON_LENGTH, full_name, set_state
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, EndIn, ReasonText, end_in, error_responses
from wms.kernel.rest.audience import Audience


class StateIn(EndIn, ChangeIn):
    """Another state of a site, a computing element or a queue."""

    state = serializers.ChoiceField(
        choices=[str(state) for state in ResourceState],
        help_text="active: jobs and pilots are taken; draining: running jobs go on, and no new ones are taken; banned: "
        "also no pilot registers.",
    )
    reason = ReasonText(
        max_length=MAX_REASON_LENGTH,
        required=False,
        default="",
        allow_blank=True,
        help_text="Reason, which users see; required unless the state is active.",
    )


class StateOut(serializers.Serializer[Any]):
    """The state of a site, a computing element or a queue."""

    place = serializers.CharField(help_text='Which, in words, such as "computing element ce01 at site LCG.CERN.ch".')
    state = serializers.CharField(help_text="Its own state; the state of what is above it may be worse.")
    reason = serializers.CharField(help_text="Reason of the state; may be empty.")
    until = serializers.DateTimeField(allow_null=True, help_text="End of the state; null: no end is set.")
    consequence = serializers.CharField(
        help_text="Jobs that a state other than active concerns: those that run there, and those that wait and can run "
        "nowhere else; empty: it is active."
    )


class _StateView(APIView):
    """Base of the states of the three levels."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    def put(self, request: Request, site: str, ce: str = "", queue: str = "") -> Response:
        """Set the state; with the same values again nothing changes.

        Administrators of the site may do this, managers at sites that serve only their VOs, and operators everywhere.
        """
        values, user, now = StateIn.checked(request.data), user_of(request), current_time()
        row = get_object_or_404(Site.objects.visible_to(user), name=site)
        level = level_at(row, ce=ce, queue=queue)
        require_may_change(row, user)
        with transaction.atomic(durable=True):
            set_state(
                level,
                state=ResourceState(values["state"]),
                reason=values["reason"],
                until=end_in(values, now=now),
                by=user,
                now=now,
            )
            transaction.set_rollback(values["dry_run"])
        state = {"place": full_name(level), "state": level.state, "reason": level.state_reason}
        consequence = "" if level.state == ResourceState.ACTIVE else str(of_closing(level))
        return Response(StateOut({**state, "until": level.state_until, "consequence": consequence}).data)


def _documented(level: str, words: str) -> Callable[[type[_StateView]], type[_StateView]]:
    document = extend_schema(
        operation_id=f"{level}_state_set",
        summary=f"Ban or drain {words}, or let it work again",
        tags=[Audience.MANAGERS],
        request=StateIn,
        responses={200: StateOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    return extend_schema_view(put=document)


@_documented("sites", "a site")
class SiteStateView(_StateView):
    """The state of a site."""


@_documented("ces", "a computing element")
class CEStateView(_StateView):
    """The state of a computing element."""


@_documented("queues", "a queue")
class QueueStateView(_StateView):
    """The state of a queue."""
