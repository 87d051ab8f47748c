"""Upload of sandboxes for jobs, and download of output sandboxes."""

from http import HTTPStatus

from django.conf import settings
from django.http import FileResponse
from django.shortcuts import get_object_or_404
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.jobs.domain.archives import SandboxTooLargeError
from wms.jobs.models import Job
from wms.jobs.services import sandboxes
from wms.jobs.services.sandboxes import NamedSandbox
from wms.kernel.clock import current_time
from wms.kernel.file_answers import file_answer
from wms.kernel.rest import AnyClientNegotiation, StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.throttling import SandboxRate
from wms.wire.protocol import output_sandbox_name

#: Bytes of a multipart body around a file: boundaries and headers of one part.
ENVELOPE_BYTES = 64 * 1024


class SandboxIn(StrictSerializer):
    """Body of POST /api/v1/sandboxes/ (multipart/form-data)."""

    file = serializers.FileField(
        allow_empty_file=True,
        help_text="File, or archive (tar, tar.gz, tar.bz2, tar.xz) to be unpacked in the job's directory.",
    )


class SandboxOut(serializers.Serializer[NamedSandbox]):
    """A stored sandbox."""

    sandbox = serializers.SerializerMethodField(help_text="Name of the sandbox in job descriptions: sha256:….")
    file_name = serializers.CharField(
        help_text="Name of the file in the job's directory, if the sandbox is a single file."
    )
    size_bytes = serializers.IntegerField(source="sandbox.size_bytes", help_text="Size of the content, in bytes.")

    def get_sandbox(self, named: NamedSandbox) -> str:
        """Return the name of the content in job descriptions."""
        return sandboxes.reference_of(named.sandbox)


def refuse_large_body(request: Request) -> None:
    """Refuse a body that is too large for a sandbox by its announced length, before it is read.

    Raises:
        SandboxTooLargeError: it is larger than a sandbox with its envelope.
    """
    announced = str(request.META.get("CONTENT_LENGTH") or "0")
    if announced.isdecimal() and int(announced) > settings.WMS_SANDBOX_MAX_BYTES + ENVELOPE_BYTES:
        raise SandboxTooLargeError(
            f"A sandbox may have {settings.WMS_SANDBOX_MAX_BYTES} bytes; larger files belong on a storage element."
        )


class SandboxUploadView(APIView):
    """Upload of sandboxes."""

    #: A sandbox with its envelope.
    most_body_bytes = settings.WMS_SANDBOX_MAX_BYTES + ENVELOPE_BYTES
    permission_classes = (IsUser,)
    token_scope = TokenScope.SUBMIT
    parser_classes = (MultiPartParser,)
    throttle_classes = (SandboxRate,)

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Check the size first: authentication by session would read the body."""
        refuse_large_body(request)
        super().initial(request, *args, **kwargs)

    @extend_schema(
        operation_id="sandboxes_upload",
        summary="Upload a file or an archive for jobs",
        tags=[Audience.USERS],
        request={"multipart/form-data": SandboxIn},
        responses={HTTPStatus.CREATED: SandboxOut, **error_responses(400, 401, 403, 409, 413, 415, 429, 503)},
    )
    def post(self, request: Request) -> Response:
        """Store a file or an archive, to be named in the input_sandbox of jobs.

        Equal contents are stored once; only uploaders, and members of their sharing groups, may name them.
        """
        if len(request.FILES.getlist("file")) > 1:
            raise serializers.ValidationError({"file": ["Send one file; pack several into an archive."]})
        uploaded = SandboxIn.checked(request.data)["file"]
        named = sandboxes.upload(uploaded, file_name=uploaded.name, owner=user_of(request), now=current_time())
        return Response(SandboxOut(named).data, status=HTTPStatus.CREATED)


class JobOutputView(APIView):
    """The output sandbox of a job."""

    permission_classes = (IsUser,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="jobs_output",
        summary="Download the output sandbox of a job",
        tags=[Audience.USERS],
        responses={
            (HTTPStatus.OK, "application/gzip"): OpenApiTypes.BINARY,
            (HTTPStatus.PARTIAL_CONTENT, "application/gzip"): OpenApiTypes.BINARY,
            **error_responses(401, 403, 404, 416),
        },
    )
    def get(self, request: Request, pk: int) -> FileResponse:
        """Fetch the output sandbox, a .tar.gz; 404 `no_output` when there is none yet.

        A download that broke off is continued with `Range: bytes=N-` and the ETag as `If-Range`.
        """
        visible = Job.objects.visible_to(user_of(request)).select_related("output_sandbox")
        output = sandboxes.output_to_fetch(get_object_or_404(visible, pk=pk))
        return file_answer(
            request,
            sandboxes.open_content(output),
            version=output.digest,
            size_bytes=output.size_bytes,
            as_attachment=True,
            filename=output_sandbox_name(pk),
            content_type="application/gzip",
        )
