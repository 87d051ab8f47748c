"""Reverting a change of the history over REST."""

from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from taskqueues.services.reverts import needs_fresh_log_in, reverted
from taskqueues.tasks import recalculate_changed_groups
from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import ConfigurationChange
from wms.accounts.queries import history_for
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.rest import ConfirmedIn, error_responses
from wms.kernel.rest.audience import Audience


class RevertOut(serializers.Serializer[Any]):
    """A change that was reverted."""

    target = serializers.CharField(help_text='What was changed, such as "group lhcb_user".')
    change = serializers.CharField(help_text='What reverting has changed, such as "priority: 6000 → 1000".')


class RevertView(APIView):
    """The revert of one change."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @property
    def needs_fresh_log_in(self) -> bool:
        """Whether the change is one that needs a fresh log-in itself."""
        change = ConfigurationChange.objects.filter(pk=self.kwargs["pk"]).first()
        return change is not None and needs_fresh_log_in(change)

    @extend_schema(
        operation_id="history_revert",
        summary="Revert a change of a priority, a state, a throttle, a limit, a pause or a membership",
        tags=[Audience.MANAGERS],
        request=ConfirmedIn,
        responses={200: RevertOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Store the former value, if the present one is that of the change; who may make the change may revert it.

        What that stops is refused until it is confirmed; a change of a membership needs a fresh log-in.
        """
        values, user = ConfirmedIn.checked(request.data), user_of(request)
        change = get_object_or_404(history_for(user), pk=pk)
        with transaction.atomic(durable=True):
            revert = reverted(change, by=user)
            revert.carry_out(values["reason"] or revert.reason, values["confirmed"], user, current_time())
            if values["dry_run"]:
                transaction.set_rollback(True)
            else:
                send_after_commit(recalculate_changed_groups)
        return Response(RevertOut({"target": change.target, "change": revert.words}).data)
