"""The pause of matching for a VO over REST, with the jobs that it concerns."""

from typing import Any

from django.db import transaction
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsManager, require_manager, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import VO
from wms.accounts.services.pauses import set_pause
from wms.jobs.queries.pauses import jobs_of
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, DeletionIn, EndIn, ReasonText, end_in, error_responses
from wms.kernel.rest.audience import Audience


class PauseIn(EndIn, ChangeIn):
    """A pause of matching."""

    reason = ReasonText(max_length=200, help_text="Reason, which everybody is shown whose jobs wait.")

    def validate(self, values: dict[str, object]) -> dict[str, object]:
        """Require an end: a pause that is forgotten stops a VO for ever."""
        if not {"until", "for_s"} & values.keys():
            raise serializers.ValidationError({"until": ["Give the end of the pause, as `until` or `for_s`."]})
        return super().validate(values)


class PauseOut(serializers.Serializer[Any]):
    """Whether matching for a VO is paused."""

    vo = serializers.CharField(help_text="Name of the VO.")
    paused = serializers.BooleanField(help_text="Whether its jobs are not matched now.")
    until = serializers.DateTimeField(allow_null=True, help_text="End of the pause, or of the last one; null: none.")
    reason = serializers.CharField(help_text="Its reason; may be empty.")
    all_until = serializers.DateTimeField(
        allow_null=True,
        help_text="End of the pause of all VOs, or of the last one, which is beside its own; null: none.",
    )
    all_reason = serializers.CharField(help_text="Its reason; may be empty.")
    waiting_jobs = serializers.IntegerField(help_text="Jobs of the VO that wait, and are held or checked.")
    running_jobs = serializers.IntegerField(help_text="Jobs of the VO that pilots hold; they go on.")


class PauseView(APIView):
    """The pause of a VO."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="vos_pause",
        summary="Show whether matching for a VO is paused",
        tags=[Audience.MANAGERS],
        responses={200: PauseOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the pause of a VO that the caller sees."""
        return Response(_answer(_vo(request, name)))

    @extend_schema(
        operation_id="vos_pause_set",
        summary="Pause matching for a VO until an end",
        tags=[Audience.MANAGERS],
        request=PauseIn,
        responses={200: PauseOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def put(self, request: Request, name: str) -> Response:
        """Pause matching: no pilot gets a job of the VO, and directors send no pilots for it; running jobs go on."""
        values, vo, now = PauseIn.checked(request.data), _vo(request, name), current_time()
        require_manager(vo, user_of(request))
        with transaction.atomic(durable=True):
            set_pause(vo, until=end_in(values, now=now), reason=values["reason"], by=user_of(request), now=now)
            transaction.set_rollback(values["dry_run"])
        return Response(_answer(vo))

    @extend_schema(
        operation_id="vos_pause_end",
        summary="End the pause of a VO",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, name: str) -> Response:
        """Let matching go on; without a pause nothing changes."""
        values, vo = DeletionIn.checked(request.query_params), _vo(request, name)
        require_manager(vo, user_of(request))
        if vo.paused_until is not None:
            with transaction.atomic(durable=True):
                set_pause(vo, until=None, reason="", by=user_of(request), now=current_time())
                transaction.set_rollback(values["dry_run"])
        return Response(status=204)


def _vo(request: Request, name: str) -> VO:
    return get_object_or_404(VO.objects.visible_to(user_of(request)), name=name)


def _answer(vo: VO) -> dict[str, object]:
    values = {"vo": vo.name, "paused": bool(vo.why_paused(current_time())), "until": vo.paused_until}
    of_all = {"all_until": vo.all_paused_until, "all_reason": vo.all_pause_reason}
    running, waiting = jobs_of(VO.objects.filter(pk=vo.pk))
    jobs = {"waiting_jobs": waiting, "running_jobs": running}
    return dict(PauseOut({**values, "reason": vo.pause_reason, **of_all, **jobs}).data)
