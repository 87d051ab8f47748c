"""The pause of matching for all VOs over REST, with the jobs that it concerns."""

from dataclasses import asdict
from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsOperator, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.services.pauses import set_pause_of_all
from wms.jobs.api.pause_of_vo import PauseIn
from wms.jobs.queries.pauses import pause_of_all
from wms.kernel.clock import current_time
from wms.kernel.rest import DeletionIn, end_in, error_responses
from wms.kernel.rest.audience import Audience


class PauseOfAllOut(serializers.Serializer[Any]):
    """Whether matching is paused for all VOs, and what this concerns."""

    paused = serializers.BooleanField(help_text="Whether a pause of all VOs is in force.")
    until = serializers.DateTimeField(allow_null=True, help_text="Its end; null: none is in force.")
    reason = serializers.CharField(help_text="Its reason; empty: none is in force.")
    vos = serializers.IntegerField(help_text="Number of the VOs.")
    own_pauses = serializers.IntegerField(help_text="VOs with a pause of their own in force, which keeps its end.")
    waiting_jobs = serializers.IntegerField(help_text="Jobs of all VOs that wait, and are held or checked.")
    running_jobs = serializers.IntegerField(help_text="Jobs of all VOs that pilots hold; they go on.")
    changed = serializers.IntegerField(help_text="VOs that this request changes, or would change in a dry run.")


class PauseOfAllView(APIView):
    """The pause of all VOs at once, for operators."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="pause",
        summary="Show whether matching is paused for all VOs",
        tags=[Audience.MANAGERS],
        responses={200: PauseOfAllOut, **error_responses(401, 403)},
    )
    def get(self, _request: Request) -> Response:
        """Return the pause of all VOs."""
        return Response(_answer(changed=0))

    @extend_schema(
        operation_id="pause_set",
        summary="Pause matching for all VOs until an end",
        tags=[Audience.MANAGERS],
        request=PauseIn,
        responses={200: PauseOfAllOut, **error_responses(400, 401, 403, 415, 429)},
    )
    def put(self, request: Request) -> Response:
        """Pause matching for all VOs: no pilot gets a job, and directors send no pilots; running jobs go on.

        Pauses of a VO's own stay, with their ends. A VO that is added later is not paused.
        """
        values, now = PauseIn.checked(request.data), current_time()
        with transaction.atomic(durable=True):
            until, reason = end_in(values, now=now), values["reason"]
            answer = _answer(changed=set_pause_of_all(until=until, reason=reason, by=user_of(request), now=now))
            transaction.set_rollback(values["dry_run"])
        return Response(answer)

    @extend_schema(
        operation_id="pause_end",
        summary="End the pause of all VOs",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 429)},
    )
    def delete(self, request: Request) -> Response:
        """End the pause of all VOs; pauses of a VO's own stay."""
        values = DeletionIn.checked(request.query_params)
        with transaction.atomic(durable=True):
            set_pause_of_all(until=None, reason="", by=user_of(request), now=current_time())
            transaction.set_rollback(values["dry_run"])
        return Response(status=204)


def _answer(*, changed: int) -> dict[str, Any]:
    state = pause_of_all(now=current_time())
    return dict(PauseOfAllOut({**asdict(state), "paused": state.paused, "changed": changed}).data)
