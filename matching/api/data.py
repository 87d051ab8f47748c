"""The data of a leased job in REST: part of the lease, and registered after the pilot has stored output."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from matching.services.data import MAX_COPIES, LeaseData
from matching.services.outputs import OutputFile, place_for_sandbox, register_output, reserve_names
from resources.domain.files import MAX_SIZE_BYTES, GivenReplica, checksum_problem
from resources.queries.replicas import ReplicaCopy
from wms.jobs.tasks import reevaluate_soon
from wms.kernel.rest import StrictSerializer, Text, WholeNumber, error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import MAX_LFN, MAX_OUTPUT_FILES


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
    """Destination of output files."""

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
    destination = OutputPlaceOut(
        allow_null=True,
        help_text="Directory for output data, whose names are reserved first (outputs/); null: no output data, or no "
        "storage element for it.",
    )
    output = OutputPlaceOut(
        allow_null=True,
        help_text="For pilot agents of version 0.1.0, which reserve no names: a directory of this lease alone. Null "
        "also if the job itself says where its output goes.",
    )
    credentials = serializers.DictField(
        child=serializers.CharField(),
        help_text="Bearer tokens by storage element; only of the storage elements above that issue credentials "
        "to pilots.",
    )


class _WithChecksum(StrictSerializer):
    """A body whose field ``checksum`` can be compared."""

    def validate_checksum(self, checksum: str) -> str:
        """Refuse a checksum of another kind."""
        if checksum and (problem := checksum_problem(checksum)):
            raise serializers.ValidationError(f"This must be {problem}.")
        return checksum


class OutputReplicaIn(_WithChecksum):
    """One stored output file."""

    lfn = Text(max_length=MAX_LFN, help_text="Logical file name: the reserved one.")
    storage_element = Text(max_length=128, help_text="Storage element of the lease.")
    size_bytes = WholeNumber(min_value=0, max_value=MAX_SIZE_BYTES, required=False, allow_null=True)
    checksum = Text(max_length=71, required=False, allow_blank=True, help_text="Checksum, as adler32:… or sha256:….")


class OutputFileIn(_WithChecksum):
    """An output file that is about to be stored."""

    lfn = Text(max_length=MAX_LFN, help_text="Logical file name, below the destination of the lease or named by it.")
    size_bytes = WholeNumber(min_value=0, max_value=MAX_SIZE_BYTES)
    checksum = Text(max_length=71, help_text="Checksum, as adler32:… or sha256:….")
    exists = serializers.BooleanField(
        default=False,
        help_text="Whether the element has another file of this name that may not be replaced.",
    )


class OutputFilesIn(StrictSerializer):
    """Output files of one lease that are about to be stored at one storage element."""

    storage_element = Text(max_length=128, help_text="Storage element of the lease.")
    files = serializers.ListField(
        child=OutputFileIn(), min_length=1, max_length=MAX_OUTPUT_FILES, help_text="The files, each name once."
    )

    def validate_files(self, files: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
        """Refuse a name that is given twice, because it is unclear which file gets it."""
        if len({file["lfn"] for file in files}) < len(files):
            raise serializers.ValidationError("Two of these files have one name; give each its own.")
        return files


class LeftContentOut(serializers.Serializer[object]):
    """Content that an earlier lease may have left under a name."""

    size_bytes = serializers.IntegerField(help_text="Size in bytes.")
    checksum = serializers.CharField(help_text="Checksum, as adler32:… or sha256:….")


class ReservedNameOut(serializers.Serializer[object]):
    """A name that is reserved until the lease ends."""

    lfn = serializers.CharField(help_text="Requested name.")
    stored_as = serializers.CharField(
        help_text="The name under which the file is stored and registered; another one if the requested one is taken."
    )
    reason = serializers.CharField(help_text="Why it is another one; empty: it is the requested one.")
    upload = serializers.CharField(
        help_text="Name of this lease alone, to which the bytes are sent; they are then moved to stored_as, and "
        "replace nothing but what the next two fields allow."
    )
    replaces = serializers.BooleanField(help_text="Whether a file of this name may be replaced.")
    earlier = LeftContentOut(many=True, help_text="Contents that may be replaced.")
    leftovers = serializers.ListField(
        child=serializers.CharField(), help_text="Uploads that earlier leases may have left, to be removed first."
    )


class ReservedNamesOut(serializers.Serializer[object]):
    """The reserved names, in the order of the request."""

    files = ReservedNameOut(many=True, help_text="One for each file.")


class SandboxPlaceOut(serializers.Serializer[object]):
    """The place of an output sandbox that is too large for the server."""

    destination = OutputPlaceOut(
        allow_null=True, help_text="Null: no storage element that needs no further credential serves the VO."
    )


class LeaseOutputsView(APIView):
    """Names of the leased job's output files."""

    permission_classes = (IsJobOfLease,)

    @extend_schema(
        operation_id="matches_outputs_place",
        summary="Where the output sandbox of a leased job goes if the server's limit is too small for it",
        tags=[Audience.PILOTS],
        responses={HTTPStatus.OK: SandboxPlaceOut, **error_responses(401, 403, 404, 409)},
    )
    def get(self, request: Request, match_id: UUID) -> Response:  # noqa: ARG002
        """Return the storage element that the job names, else one of the site, else one of the VO."""
        return Response(SandboxPlaceOut({"destination": place_for_sandbox(match_id)}).data)

    @extend_schema(
        operation_id="matches_outputs_reserve",
        summary="Reserve the names of a leased job's output files",
        tags=[Audience.PILOTS],
        request=OutputFilesIn,
        responses={HTTPStatus.OK: ReservedNamesOut, **error_responses(400, 401, 403, 404, 409, 415)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Reserve names before the first byte is stored; repeating it is harmless."""
        fields = OutputFilesIn.checked(request.data)
        files = [OutputFile(**file) for file in fields["files"]]
        reserved = reserve_names(match_id, files, storage_element=fields["storage_element"])
        return Response({"files": ReservedNameOut(reserved, many=True).data})


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
    return {
        "input_files": files,
        "destination": data.destination and asdict(data.destination),
        "output": data.output and asdict(data.output),
        "credentials": dict(data.credentials),
    }


_NOWHERE: Final = MappingProxyType({"url": None, "storage_element": "", "size_bytes": None, "checksum": ""})


def _copy_out(copy: ReplicaCopy) -> dict[str, object]:
    return {
        "url": copy.url,
        "storage_element": copy.storage_element,
        "size_bytes": copy.size_bytes,
        "checksum": copy.checksum,
    }
