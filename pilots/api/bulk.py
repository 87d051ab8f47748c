"""POST /api/v1/pilots/bulk/: drain or kill the pilots that a manager or an administrator of a site chooses."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.filters import PilotFilterSet
from pilots.queries import changeable_by
from pilots.services.bulk import MOST_PILOTS, ChangedPilots, PilotAction, act, first_ids
from pilots.tasks import serve_ce
from resources.api.permissions import OverseesSites
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, FilterBody, ReasonText, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import API_V1


class PilotFilterIn(FilterBody):
    """The filters of GET /api/v1/pilots/ in a body."""

    filterset_class = PilotFilterSet


class PilotBulkIn(ChangeIn):
    """An action, and the pilots by ids or by a filter."""

    action = serializers.ChoiceField(
        choices=list(PilotAction),
        help_text="drain: they get no further jobs, and end after those that they have; kill: their tokens are revoked "
        "and they are ended in the batch system, and their jobs wait again.",
    )
    ids = serializers.ListField(
        child=WholeNumber(), required=False, allow_empty=False, max_length=MOST_PILOTS, help_text="Ids of the pilots."
    )
    filter = PilotFilterIn(required=False, help_text=f"Filters as of GET {API_V1}pilots/; at least one.")
    reason = ReasonText(max_length=200, help_text="Reason, which the status of the pilots shows.")

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        """Require either ids or a filter that chooses."""
        if ("ids" in values) == ("filter" in values):
            raise serializers.ValidationError({"ids": ["Name the pilots by ids or by filter, one of the two."]})
        if "filter" in values and not values["filter"].data:
            raise serializers.ValidationError({"filter": ["Name at least one criterion; all pilots are not accepted."]})
        return values


class PilotBulkOut(serializers.Serializer[Any]):
    """The numbers of the pilots that were chosen, and of those that were drained or killed."""

    matched = serializers.IntegerField(
        help_text="Living pilots that were chosen, of managed VOs and at administered sites."
    )
    done = serializers.IntegerField(
        help_text="Those that were drained or killed by this request; 0 in a dry run. The others were already."
    )


class PilotBulkView(APIView):
    """Actions on pilots."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="pilots_bulk",
        summary="Drain or kill pilots of managed VOs and at administered sites; operators: all",
        tags=[Audience.MANAGERS],
        request=PilotBulkIn,
        responses={200: PilotBulkOut, **error_responses(400, 401, 403, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Drain or kill the chosen pilots that live; of others' pilots and of ended ones nothing is changed."""
        values, user = PilotBulkIn.checked(request.data), user_of(request)
        living = changeable_by(user).filter(ended_at=None)
        chosen = living.filter(pk__in=values["ids"]) if "ids" in values else values["filter"].filter_queryset(living)
        ids = first_ids(chosen)
        if len(ids) > MOST_PILOTS:
            sentence = f"The filter matches more than {MOST_PILOTS} pilots; narrow it, for example by ce."
            raise serializers.ValidationError({"filter": [sentence]})
        changed = ChangedPilots(pilots=0)
        if not values["dry_run"]:
            action = PilotAction(values["action"])
            changed = act(action, ids, reason=values["reason"], by=user, now=current_time())
        for ce_id in changed.ce_ids:
            send_after_commit(serve_ce, ce_id=ce_id)
        return Response(PilotBulkOut({"matched": len(ids), "done": changed.pilots}).data)
