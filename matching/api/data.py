"""The data of a leased job in REST: part of the lease, and registered after the pilot has stored output."""

from http import HTTPStatus
from types import MappingProxyType
from typing import Final
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.api.permissions import IsJobOfLease
from matching.services.data import MAX_COPIES, LeaseData, register_output
from resources.domain.files import MAX_SIZE_BYTES, GivenReplica, checksum_problem
from resources.queries.replicas import ReplicaCopy
from wms.jobs.tasks import reevaluate_soon
from wms.kernel.rest import StrictSerializer, Text, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import MAX_LFN


class CopyOut(serializers.Serializer[object]):
    """One copy of a file."""

    url = serializers.CharField(help_text="Address of this copy: file:// or https://.")
    storage_element = serializers.CharField(help_text="Storage element of this copy.")
    size_bytes = serializers.IntegerField(allow_null=True, help_text="Size in bytes; null: unknown.")
    checksum = serializers.CharField(help_text="Checksum, as adler32:… or sha256:…; empty: unknown.")


class InputFileOut(serializers.Serializer[object]):
    """Copies of one input file: the nearest, and others to be tried if that cannot be read."""

    lfn = serializers.CharField(help_text="Logical file name.")
    url = serializers.CharField(
        allow_null=True, help_text="Address of the nearest copy: file:// or https://; null: no copy exists."
    )
    storage_element = serializers.CharField(help_text="Storage element of this copy; empty: none.")
    size_bytes = serializers.IntegerField(allow_null=True, help_text="Size in bytes; null: unknown.")
    checksum = serializers.CharField(help_text="Checksum, as adler32:… or sha256:…; empty: unknown.")
    other_copies = CopyOut(many=True, help_text=f"Other copies, nearest first; at most {MAX_COPIES - 1}.")
    is_of_sandbox = serializers.BooleanField(
        help_text="Whether it is of input_sandbox: it is fetched whatever the policy, and an archive is unpacked."
    )


class OutputPlaceOut(serializers.Serializer[object]):
    """Destination of the output data."""

    storage_element = serializers.CharField(
        help_text="Name of the storage element, with which replicas are registered."
    )
    url = serializers.CharField(help_text="Address of the storage element; logical file names are appended.")
    path = serializers.CharField(help_text="Logical directory of the files.")


class LeaseDataOut(serializers.Serializer[object]):
    """The data of a job that reads or writes data."""

    input_files = InputFileOut(
        many=True, help_text="Input files in the order of input_data, then those of input_sandbox, each once."
    )
    output = OutputPlaceOut(
        allow_null=True, help_text="Directory for output data; null: no output data, or no storage element for it."
    )
    credentials = serializers.DictField(
        child=serializers.CharField(),
        help_text="Bearer tokens by storage element; only of the storage elements above that issue credentials "
        "to pilots.",
    )


class OutputReplicaIn(StrictSerializer):
    """One stored output file."""

    lfn = Text(max_length=MAX_LFN, help_text="Logical file name, below the output path of the lease.")
    storage_element = Text(max_length=128, help_text="Storage element of the lease.")
    size_bytes = WholeNumber(min_value=0, max_value=MAX_SIZE_BYTES, required=False, allow_null=True)
    checksum = Text(max_length=71, required=False, allow_blank=True, help_text="Checksum, as adler32:… or sha256:….")

    def validate_checksum(self, checksum: str) -> str:
        """Refuse a checksum that cannot be compared."""
        if checksum and (problem := checksum_problem(checksum)):
            raise serializers.ValidationError(f"This must be {problem}.")
        return checksum


class LeaseReplicasView(APIView):
    """Output files of the leased job."""

    permission_classes = (IsJobOfLease,)

    @extend_schema(
        operation_id="matches_replicas_register",
        summary="Register an output file of a leased job",
        tags=[Audience.PILOTS],
        request=OutputReplicaIn,
        responses={HTTPStatus.CREATED: OutputReplicaIn, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Register an output file that was stored at the destination of the lease; repeating it is harmless."""
        fields = OutputReplicaIn.checked(request.data)
        replica = GivenReplica(
            lfn=fields["lfn"],
            storage_element=fields["storage_element"],
            size_bytes=fields.get("size_bytes"),
            checksum=fields.get("checksum", ""),
        )
        register_output(match_id, replica)
        reevaluate_soon([replica.lfn])
        return Response(fields, status=HTTPStatus.CREATED)


def data_out(data: LeaseData) -> dict[str, object]:
    """Return the data of a lease in the form of the answer."""
    files = [
        {
            "lfn": lfn,
            **(_copy_out(copies[0]) if copies else _NOWHERE),
            "other_copies": [*map(_copy_out, copies[1:])],
            "is_of_sandbox": lfn in data.sandbox_files,
        }
        for lfn, copies in data.input_files.items()
    ]
    place = data.output
    output = place and {"storage_element": place.storage_element, "url": place.url, "path": place.path}
    return {"input_files": files, "output": output, "credentials": dict(data.credentials)}


_NOWHERE: Final = MappingProxyType({"url": None, "storage_element": "", "size_bytes": None, "checksum": ""})


def _copy_out(copy: ReplicaCopy) -> dict[str, object]:
    return {
        "url": copy.url,
        "storage_element": copy.storage_element,
        "size_bytes": copy.size_bytes,
        "checksum": copy.checksum,
    }
