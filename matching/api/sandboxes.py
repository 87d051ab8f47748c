"""Sandboxes of a lease: the pilot fetches the job's input and stores its output."""

from http import HTTPStatus
from uuid import UUID

from django.conf import settings
from django.http import FileResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.api.permissions import IsJobOfLease
from matching.services import leases
from wms.jobs.api.sandboxes import ENVELOPE_BYTES, SandboxIn, SandboxOut, refuse_large_body
from wms.jobs.services import sandboxes
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.clock import current_time
from wms.kernel.file_answers import file_answer
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.protocol import output_sandbox_name


class LeaseSandboxView(APIView):
    """One input sandbox of the job."""

    permission_classes = (IsJobOfLease,)

    @extend_schema(
        operation_id="matches_sandbox_fetch",
        summary="Download an input sandbox of a leased job",
        tags=[Audience.PILOTS],
        responses={
            (HTTPStatus.OK, "application/octet-stream"): OpenApiTypes.BINARY,
            (HTTPStatus.PARTIAL_CONTENT, "application/octet-stream"): OpenApiTypes.BINARY,
            **error_responses(401, 403, 404, 409, 416),
        },
    )
    def get(self, request: Request, match_id: UUID, digest: str) -> FileResponse:
        """Fetch an input sandbox of the leased job, as it was uploaded."""
        sandbox = sandboxes.input_sandbox_of(leases.open_job(match_id), digest=digest)
        return file_answer(
            request,
            sandboxes.open_content(sandbox.sandbox),
            version=sandbox.sandbox.digest,
            size_bytes=sandbox.sandbox.size_bytes,
            filename=sandbox.file_name,
            content_type="application/octet-stream",
        )


class LeaseSandboxesView(APIView):
    """The output sandbox of the job."""

    #: Bytes: a sandbox.
    most_body_bytes = settings.WMS_SANDBOX_MAX_BYTES + ENVELOPE_BYTES
    permission_classes = (IsJobOfLease,)
    parser_classes = (MultiPartParser,)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Check the size before the body is read."""
        refuse_large_body(request)
        super().initial(request, *args, **kwargs)

    @extend_schema(
        operation_id="matches_sandbox_store",
        summary="Upload the output sandbox of a leased job",
        tags=[Audience.PILOTS],
        request={"multipart/form-data": SandboxIn},
        responses={HTTPStatus.CREATED: SandboxOut, **error_responses(400, 401, 403, 404, 409, 413, 415, 503)},
    )
    def post(self, request: Request, match_id: UUID) -> Response:
        """Store the output sandbox, a .tar.gz, to be named in the last report."""
        uploaded = SandboxIn.checked(request.data)["file"]
        job = leases.open_job(match_id)
        stored = sandboxes.store_output(job, content=uploaded, now=current_time())
        named = NamedSandbox(sandbox=stored, file_name=output_sandbox_name(job.pk))
        return Response(SandboxOut(named).data, status=HTTPStatus.CREATED)
