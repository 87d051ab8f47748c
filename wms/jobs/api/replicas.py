"""Replicas of files: listed for the members of a VO, registered and removed by its managers.

In this app, because jobs that wait for the files are re-evaluated at once.
"""

from collections.abc import Mapping
from http import HTTPStatus

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.domain.files import (
    MAX_REPLICAS,
    parse_replicas,
    refused,
    shown,
    url_of,
)
from resources.filters import ReplicaFilterSet
from resources.models import Replica
from resources.services import replicas
from wms.accounts.api.permissions import IsUser, user_of
from wms.jobs.tasks import reevaluate_soon
from wms.kernel.names import did_you_mean
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import MAX_LFN

_FIELDS = ("vo", "replicas")
_VO = "VO of the files; default: the VO that is the first part of their names."


class ReplicaPages(CursorPages):
    """Replicas in the order of their registration."""

    orderings = ("id", "-id")


class ReplicaOut(serializers.Serializer[Replica]):
    """One copy of a file."""

    vo = serializers.CharField(source="vo.name", help_text="VO of the file.")
    lfn = serializers.CharField(help_text="Logical file name.")
    storage_element = serializers.CharField(source="storage_element.name", help_text="Storage element of this copy.")
    url = serializers.SerializerMethodField(
        help_text="Address of this copy, such as https://…; null: the storage element does not serve the VO any more."
    )
    size_bytes = serializers.IntegerField(allow_null=True, help_text="Size in bytes; null: unknown.")
    checksum = serializers.CharField(help_text="Checksum, as adler32:… or sha256:…; empty: unknown.")

    def get_url(self, replica: Replica) -> str | None:
        """Return the address; None if the storage element does not serve the VO."""
        is_served = replica.is_served  # type: ignore[attr-defined]  # of ReplicaQuerySet.with_service
        return url_of(replica.storage_element.url, replica.lfn) if is_served else None


class ReplicaBody(serializers.Serializer[object]):
    """One copy of a file, as it is registered."""

    lfn = serializers.CharField(
        max_length=MAX_LFN, help_text="Logical file name: an absolute path, with or without the prefix LFN:."
    )
    storage_element = serializers.CharField(max_length=128, help_text="Name of a configured storage element.")
    size_bytes = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        help_text="Size in bytes; pilots check it before they start a job.",
    )
    checksum = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=71,
        help_text="Checksum, as adler32:… or sha256:…; pilots check it too.",
    )


class RegistrationBody(serializers.Serializer[object]):
    """Body of POST /api/v1/replicas/."""

    vo = serializers.CharField(required=False, max_length=64, help_text=_VO)
    replicas = ReplicaBody(many=True, help_text=f"Replicas, 1 to {MAX_REPLICAS}, each once.")


class RemovedReplicaBody(serializers.Serializer[object]):
    """One copy of a file, or all of them, as it is removed."""

    lfn = serializers.CharField(max_length=MAX_LFN, help_text="Logical file name.")
    storage_element = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=128,
        help_text="Storage element of the copy; left out: all copies of the file.",
    )


class RemovalBody(serializers.Serializer[object]):
    """Body of POST /api/v1/replicas/remove/."""

    vo = serializers.CharField(required=False, max_length=64, help_text=_VO)
    replicas = RemovedReplicaBody(many=True, help_text=f"Replicas, 1 to {MAX_REPLICAS}, each once.")


class RegisteredOut(serializers.Serializer[object]):
    """Result of a registration."""

    new = serializers.IntegerField(help_text="Number of new replicas.")
    changed = serializers.IntegerField(help_text="Number of existing replicas whose size or checksum was changed.")


class RemovedOut(serializers.Serializer[object]):
    """Result of a removal."""

    removed = serializers.IntegerField(help_text="Number of removed replicas; replicas that did not exist are ignored.")


class ReplicaListView(ListAPIView[Replica]):
    """Replicas of the files of the caller's VOs."""

    #: 10,000 replicas with names of 255 characters.
    most_body_bytes = 16 * 1024 * 1024
    permission_classes = (IsUser,)
    serializer_class = ReplicaOut
    pagination_class = ReplicaPages
    filterset_class = ReplicaFilterSet

    def get_queryset(self) -> QuerySet[Replica]:
        """Return the replicas that the caller may see."""
        visible = Replica.objects.visible_to(user_of(self.request))
        return visible.with_service().select_related("vo", "storage_element")

    @extend_schema(
        operation_id="replicas_list",
        summary="List the replicas of the files of the caller's VOs; operators: of all VOs",
        tags=[Audience.USERS],
        responses={200: ReplicaOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of replicas."""
        return self.list(request)

    @extend_schema(
        operation_id="replicas_register",
        summary="Register replicas of one VO's files, all or none; for its managers and operators",
        tags=[Audience.MANAGERS],
        request=RegistrationBody,
        responses={201: RegisteredOut, **error_responses(400, 401, 403, 413, 415)},
    )
    def post(self, request: Request) -> Response:
        """Register replicas; jobs that wait for the files continue within seconds."""
        body = _object(request.data)
        entries = parse_replicas(body.get("replicas"))
        written = replicas.register(entries, vo_name=_vo_name(body), by=user_of(request))
        if written.new:
            reevaluate_soon([replica.lfn for replica in entries])
        return Response(RegisteredOut(written).data, status=HTTPStatus.CREATED)


class ReplicaRemovalView(APIView):
    """Removal of replicas."""

    #: 10,000 names of 255 characters.
    most_body_bytes = 16 * 1024 * 1024
    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="replicas_remove",
        summary="Remove replicas of one VO's files, all or none; for its managers and operators",
        tags=[Audience.MANAGERS],
        request=RemovalBody,
        responses={200: RemovedOut, **error_responses(400, 401, 403, 413, 415)},
    )
    def post(self, request: Request) -> Response:
        """Remove replicas; jobs that waited for them at those sites wait elsewhere, or become Checking."""
        body = _object(request.data)
        entries = parse_replicas(body.get("replicas"), removing=True)
        removed = replicas.remove(entries, vo_name=_vo_name(body), by=user_of(request))
        if removed:
            reevaluate_soon([replica.lfn for replica in entries])
        return Response(RemovedOut({"removed": removed}).data)


def _object(body: object) -> Mapping[str, object]:
    """Return the body, an object with known fields only.

    NB: not a serializer, which takes longer for ten thousand replicas than the database.
    """
    if not isinstance(body, Mapping):
        raise refused({"body": [f"Send an object with the list replicas, not {shown(body)}."]})
    unknown = [str(name)[:64] for name in body if name not in _FIELDS]
    if unknown:
        raise refused({name: [f"Unknown field.{did_you_mean(name, _FIELDS)}"] for name in unknown[:20]})
    return body


def _vo_name(body: Mapping[str, object]) -> str | None:
    name = body.get("vo")
    if name is None or (isinstance(name, str) and name):
        return name
    raise refused({"vo": [f"vo must be the name of a VO, not {shown(name)}."]})
