"""The data of a leased job over REST: told with the lease, and registered when the pilot has stored some."""

from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.api.permissions import IsJobOfLease
from matching.services.data import MAX_COPIES, LeaseData, register_output
from resources.domain.files import MAX_LFN, MAX_SIZE_BYTES, GivenReplica, checksum_problem
from resources.queries.replicas import ReplicaCopy
from wms.jobs.tasks import reevaluate_soon
from wms.kernel.rest import StrictSerializer, Text, WholeNumber, error_responses


class CopyOut(serializers.Serializer[Any]):
    """One place where a pilot may read a file."""

    url = serializers.CharField(help_text="file:// or https://.")
    storage_element = serializers.CharField(help_text="That holds this copy.")
    size_bytes = serializers.IntegerField(allow_null=True, help_text="null: not known.")
    checksum = serializers.CharField(help_text="adler32:… or sha256:…; empty: not known.")


class InputFileOut(serializers.Serializer[Any]):
    """Where a pilot reads one file: the nearest copy, and those that it tries when that cannot be read."""

    lfn = serializers.CharField(help_text="Logical file name.")
    url = serializers.CharField(allow_null=True, help_text="file:// or https://; null: no copy is left.")
    storage_element = serializers.CharField(help_text="That holds this copy; empty: none.")
    size_bytes = serializers.IntegerField(allow_null=True, help_text="null: not known.")
    checksum = serializers.CharField(help_text="adler32:… or sha256:…; empty: not known.")
    other_copies = CopyOut(many=True, help_text=f"The next nearest; at most {MAX_COPIES - 1}.")


class OutputPlaceOut(serializers.Serializer[Any]):
    """Where a pilot puts the output data."""

    storage_element = serializers.CharField(help_text="Its name, to register replicas by.")
    url = serializers.CharField(help_text="Of the storage element; a logical file name comes after it.")
    path = serializers.CharField(help_text="Logical directory of the files.")


class LeaseDataOut(serializers.Serializer[Any]):
    """The data of a job that reads or writes some."""

    input_files = InputFileOut(many=True, help_text="In the order of input_data, each once.")
    output = OutputPlaceOut(allow_null=True, help_text="null: there is no output, or no place for it.")
    credentials = serializers.DictField(
        child=serializers.CharField(),
        help_text="Bearer tokens by storage element, of those above whose credential is for pilots.",
    )


class OutputReplicaIn(StrictSerializer):
    """One output file that was stored."""

    lfn = Text(max_length=MAX_LFN, help_text="Below the path that the lease told.")
    storage_element = Text(max_length=128, help_text="That the lease told.")
    size_bytes = WholeNumber(min_value=0, max_value=MAX_SIZE_BYTES, required=False, allow_null=True)
    checksum = Text(max_length=71, required=False, allow_blank=True, help_text="adler32:… or sha256:….")

    def validate_checksum(self, checksum: str) -> str:
        """Refuse one that nobody could compare."""
        if checksum and (problem := checksum_problem(checksum)):
            raise serializers.ValidationError(f"This must be {problem}.")
        return checksum


class LeaseReplicasView(APIView):
    """Output files of the leased job."""

    permission_classes = (IsJobOfLease,)

    @extend_schema(
        operation_id="matches_replicas_register",
        tags=["pilots"],
        request=OutputReplicaIn,
        responses={HTTPStatus.CREATED: OutputReplicaIn, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Register an output file that was stored where the lease said; repeating it is harmless."""
        given = OutputReplicaIn.checked(request.data)
        replica = GivenReplica(
            lfn=given["lfn"],
            storage_element=given["storage_element"],
            size_bytes=given.get("size_bytes"),
            checksum=given.get("checksum", ""),
        )
        register_output(match_id, replica)
        reevaluate_soon([replica.lfn])
        return Response(given, status=HTTPStatus.CREATED)


def data_out(data: LeaseData) -> dict[str, Any]:
    """Return the data of a lease as it is told."""
    files = [
        {"lfn": lfn, **(_copy_out(copies[0]) if copies else _NOWHERE), "other_copies": [*map(_copy_out, copies[1:])]}
        for lfn, copies in data.input_files.items()
    ]
    place = data.output
    output = place and {"storage_element": place.storage_element, "url": place.url, "path": place.path}
    return {"input_files": files, "output": output, "credentials": dict(data.credentials)}


_NOWHERE: Final = MappingProxyType({"url": None, "storage_element": "", "size_bytes": None, "checksum": ""})


def _copy_out(copy: ReplicaCopy) -> dict[str, Any]:
    return {
        "url": copy.url,
        "storage_element": copy.storage_element,
        "size_bytes": copy.size_bytes,
        "checksum": copy.checksum,
    }
