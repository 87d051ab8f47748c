"""The priority of a group over REST, with the parts of all groups of its VO beside it."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from taskqueues.queries import GroupParts, parts_of_groups
from taskqueues.services.priorities import set_priority
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts.api.permissions import IsManager, managed_group, user_of
from wms.accounts.domain import MOST_PRIORITY, TokenScope
from wms.accounts.models import Group
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.rest import ConfirmedIn, Number, ReasonText, error_responses
from wms.kernel.rest.audience import Audience


class PriorityIn(ConfirmedIn):
    """Another priority of a group."""

    priority = Number(min_value=0, max_value=MOST_PRIORITY, help_text="Share of the group, relative to the others.")
    reason = ReasonText(max_length=200, help_text="Reason of the change, for the history.")


class GroupPartsOut(serializers.Serializer[GroupParts]):
    """The parts of a group in its VO, each 0 to 1."""

    group = serializers.CharField(source="group.name", help_text="Name of the group.")
    priority = serializers.FloatField(source="group.priority", help_text="Its priority.")
    configured = serializers.FloatField(help_text="Part of the configured priorities.")
    in_effect = serializers.FloatField(help_text="Part of the shares in effect, which may be corrected by usage.")
    delivered = serializers.FloatField(
        allow_null=True, help_text="Part of the processor time under lease of the last day; null: the VO used none."
    )


class PriorityOut(serializers.Serializer[Any]):
    """The priority of a group, and what each group of its VO gets."""

    group = serializers.CharField(help_text="Name of the group.")
    vo = serializers.CharField(help_text="Its VO.")
    priority = serializers.FloatField(help_text="Its priority; after a dry run the one that was tried.")
    groups = GroupPartsOut(many=True, help_text="All groups of the VO, those with the greatest priority first.")


class PriorityView(APIView):
    """The priority of a group, for those who may change it."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="groups_priority",
        summary="Show the priority of a group, and the parts of all groups of its VO",
        tags=[Audience.MANAGERS],
        responses={200: PriorityOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the priority of a group of a VO that the caller manages."""
        return Response(_answer(managed_group(request, name)))

    @extend_schema(
        operation_id="groups_priority_set",
        summary="Give a group another priority, or try what it would get",
        tags=[Audience.MANAGERS],
        request=PriorityIn,
        responses={200: PriorityOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def put(self, request: Request, name: str) -> Response:
        """Change the priority, and return the parts of all groups with it; it takes effect within a second.

        A priority of 0, with which no job of the group starts, is refused until it is confirmed.
        """
        values, group = PriorityIn.checked(request.data), managed_group(request, name)
        with transaction.atomic(durable=True):
            set_priority(
                group,
                priority=values["priority"],
                reason=values["reason"],
                confirmed=values["confirmed"],
                by=user_of(request),
                now=current_time(),
            )
            answer = _answer(group)
            if values["dry_run"]:
                transaction.set_rollback(True)
            else:
                send_after_commit(recalculate_changed_groups)
        return Response(answer)


def _answer(group: Group) -> dict[str, object]:
    parts = parts_of_groups(group.vo, now=current_time())
    values = {"group": group.name, "vo": group.vo.name, "priority": group.priority, "groups": parts}
    return dict(PriorityOut(values).data)
