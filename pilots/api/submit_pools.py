"""Which submit pools a queue belongs to: RFC7's getSubmitPoolsForQueue, for pilots, directors and people."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.api.permissions import IsPilot
from pilots.domain import PilotCredential
from pilots.models import Pilot
from resources.queries import resolve_place
from taskqueues.models import SubmitPool
from taskqueues.queries import pools_of_queue
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.models import VO
from wms.kernel.errors import RejectedError
from wms.kernel.rest import StrictSerializer, error_responses


class NoSuchQueueError(RejectedError):
    """The names given do not mean exactly one queue."""

    code = "no_such_queue"


class SubmitPoolQuery(StrictSerializer):
    """Query string of GET /api/submit-pools/."""

    vo = serializers.CharField(required=False, max_length=64, help_text="Of a person with several VOs.")
    site = serializers.CharField(required=False, max_length=128)
    ce = serializers.CharField(required=False, max_length=128)
    queue = serializers.CharField(required=False, max_length=128, help_text="Left out: all pools, as objects.")


class SubmitPoolsOut(serializers.Serializer[Any]):
    """The pools of one queue."""

    submit_pools = serializers.ListField(child=serializers.CharField())


class SubmitPoolOut(serializers.Serializer[SubmitPool]):
    """One set of requirements and the queues that satisfy it."""

    id = serializers.CharField(help_text="SHA-256 of the VO and the canonical requirements.")
    vo = serializers.CharField(source="vo.name")
    requirements = serializers.DictField()
    queues = serializers.SerializerMethodField(help_text="As site/ce/queue.")
    refreshed_at = serializers.DateTimeField()

    def get_queues(self, pool: SubmitPool) -> list[str]:
        """Return the names of the queues, sorted."""
        return sorted(f"{queue.ce.site}/{queue.ce}/{queue}" for queue in pool.queues.all())


class AllSubmitPoolsOut(serializers.Serializer[Any]):
    """All pools."""

    submit_pools = SubmitPoolOut(many=True)


class SubmitPoolsView(APIView):
    """Submit pools, of a queue or all."""

    permission_classes = (IsPilot | IsUser,)

    @extend_schema(
        operation_id="submit_pools_list",
        summary="Tell the submit pools of a queue, or all of them",
        tags=["pilots"],
        parameters=[SubmitPoolQuery],
        responses={
            200: PolymorphicProxySerializer(
                component_name="SubmitPools",
                serializers=[SubmitPoolsOut, AllSubmitPoolsOut],
                resource_type_field_name=None,
            ),
            **error_responses(400, 401, 403),
        },
    )
    def get(self, request: Request) -> Response:
        """With a queue, the ids of its pools; without, every pool of the VO with its queues (RFC7)."""
        asked = SubmitPoolQuery.checked(request.query_params)
        vo = _vo_of(request, asked.get("vo"))
        place = {level: asked[level] for level in ("site", "ce", "queue") if level in asked}
        if not place:
            pools = SubmitPool.objects.filter(vo=vo).select_related("vo").prefetch_related("queues__ce__site")
            return Response(AllSubmitPoolsOut({"submit_pools": pools.order_by("pk")}).data)
        queue = resolve_place(vo, **place).queue
        if queue is None:
            sentence = "Name the site, the CE and the queue, so that one queue is meant."
            raise NoSuchQueueError(sentence, errors={"queue": [sentence]})
        return Response({"submit_pools": pools_of_queue(queue, vo_id=vo.pk)})


def _vo_of(request: Request, name: str | None) -> VO:
    if isinstance(request.auth, PilotCredential):
        visible = VO.objects.filter(pk__in=Pilot.objects.filter(pk=request.auth.pilot_id).values("vo"))
    else:
        visible = VO.objects.visible_to(user_of(request))
    found = list((visible if name is None else visible.filter(name=name)).order_by("name")[:2])
    if len(found) != 1:
        sentence = "You have several VOs; say which." if found else "You have no such VO."
        raise NoSuchQueueError(sentence, errors={"vo": [sentence]})
    return found[0]
