"""The submit pools of a queue (RFC7, getSubmitPoolsForQueue), for pilots, directors and people."""

from collections.abc import Mapping, Sequence

from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import Direction, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.api.permissions import IsPilot
from pilots.domain.pilot import PilotCredential
from pilots.services.reports import living_pilot
from resources.queries.places import resolve_place
from taskqueues.models import SubmitPool
from taskqueues.queries import MOST_QUEUES, PoolQueues, pools_of_queue, queues_by_pool
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.models import VO
from wms.kernel.errors import RejectedError
from wms.kernel.rest import PAGE_PARAMETERS, CursorPages, PageParameters, StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience


class NoSuchQueueError(RejectedError):
    """The names do not identify exactly one queue."""

    code = "no_such_queue"


class SubmitPoolQuery(StrictSerializer):
    """Query string of GET /api/v1/submit-pools/; only the list of all pools has pages."""

    known_elsewhere = frozenset(PAGE_PARAMETERS)

    vo = serializers.CharField(
        required=False, max_length=64, help_text="Name of the VO; required from users with several VOs."
    )
    site = serializers.CharField(required=False, max_length=128)
    ce = serializers.CharField(required=False, max_length=128)
    queue = serializers.CharField(
        required=False,
        max_length=128,
        help_text="Name of the queue. Without site, ce and queue: all pools, as objects.",
    )


class SubmitPoolOut(serializers.Serializer[SubmitPool]):
    """One set of requirements and the queues that satisfy it."""

    id = serializers.CharField(help_text="SHA-256 of the VO and the canonical requirements.")
    vo = serializers.CharField(source="vo.name")
    requirements = serializers.DictField()
    queue_count = serializers.SerializerMethodField(help_text="Number of queues that satisfy the requirements.")
    queues = serializers.SerializerMethodField(
        help_text=f"Names of the queues, as site/ce/queue, sorted; the first {MOST_QUEUES}."
    )
    refreshed_at = serializers.DateTimeField()

    def get_queue_count(self, pool: SubmitPool) -> int:
        """Return the number of its queues."""
        return self._queues(pool).count

    def get_queues(self, pool: SubmitPool) -> list[str]:
        """Return the names of its queues, sorted; at most MOST_QUEUES."""
        return list(self._queues(pool).names)

    def _queues(self, pool: SubmitPool) -> PoolQueues:
        known: Mapping[str, PoolQueues] = self.context["queues"]
        return known.get(pool.pk, PoolQueues())


class PoolField(serializers.Field[object, object, object, object]):
    """A pool: its id in the list of a queue, else an object."""

    def to_representation(self, value: object) -> object:
        """Return the id as it is, or the pool as an object."""
        return SubmitPoolOut(value, context=self.context).data if isinstance(value, SubmitPool) else value


class PoolFieldSchema(OpenApiSerializerFieldExtension):
    """A pool in the OpenAPI schema; with two list types instead, an empty list would fit both."""

    target_class = PoolField

    def map_serializer_field(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, object]:
        """Return the schema of a pool."""
        return {"oneOf": [{"type": "string"}, auto_schema.resolve_serializer(SubmitPoolOut, direction).ref]}


class SubmitPoolsOut(serializers.Serializer[object]):
    """The ids of the pools of one queue, or one page of all pools as objects."""

    submit_pools = serializers.ListField(child=PoolField())
    next = serializers.URLField(
        required=False,
        allow_null=True,
        help_text="Address of the next page of the list of all pools; null on the last one.",
    )
    previous = serializers.URLField(
        required=False,
        allow_null=True,
        help_text="Address of the previous page of the list of all pools; null on the first one.",
    )


class SubmitPoolPages(CursorPages):
    """Pools by id, which never changes."""

    orderings = ("id", "-id")

    def get_paginated_response(self, data: Sequence[object]) -> Response:
        """Return the page under the name that the list of a queue has too."""
        answer = super().get_paginated_response(data)
        answer.data["submit_pools"] = answer.data.pop("results")
        return answer


class SubmitPoolsView(APIView):
    """Submit pools, of a queue or all."""

    permission_classes = (IsPilot | IsUser,)

    @extend_schema(
        operation_id="submit_pools_list",
        summary="Show the submit pools of a queue, or all of them",
        tags=[Audience.PILOTS],
        parameters=[SubmitPoolQuery, PageParameters],
        responses={
            200: SubmitPoolsOut,
            **error_responses(400, 401, 403),
        },
    )
    def get(self, request: Request) -> Response:
        """Return the ids of a queue's pools; without a queue, the VO's pools with their queues, in pages (RFC7)."""
        query = SubmitPoolQuery.checked(request.query_params)
        vo = _vo_of(request, query.get("vo"))
        place = {level: query[level] for level in ("site", "ce", "queue") if level in query}
        if not place:
            pages = SubmitPoolPages()
            pools = pages.paginate_queryset(SubmitPool.objects.filter(vo=vo).select_related("vo"), request)
            queues = queues_by_pool([pool.pk for pool in pools], vo)
            page = SubmitPoolsOut({"submit_pools": pools}, context={"queues": queues}).data
            return pages.get_paginated_response(page["submit_pools"])
        queue = resolve_place(vo, **place).queue
        if queue is None:
            sentence = "One queue is required; name its site, CE and queue."
            raise NoSuchQueueError(sentence, errors={"queue": [sentence]})
        return Response({"submit_pools": pools_of_queue(queue, vo)})


def _vo_of(request: Request, name: str | None) -> VO:
    if isinstance(request.auth, PilotCredential):
        visible = VO.objects.filter(pk=living_pilot(request.auth.pilot_id).vo_id)
    else:
        visible = VO.objects.visible_to(user_of(request))
    matches = list((visible if name is None else visible.filter(name=name)).order_by("name")[:2])
    if len(matches) != 1:
        sentence = "You have several VOs; name one." if matches else "You have no such VO."
        raise NoSuchQueueError(sentence, errors={"vo": [sentence]})
    return matches[0]
