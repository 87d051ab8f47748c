"""Downloads of programs of one file, and the client as one.

NB: not exported by wms.kernel.rest, whose docstring has the reason: this imports the framework's views.
"""

from functools import cache
from http import HTTPStatus

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

import wms.client
import wms.wire
from wms.kernel.one_file_programs import OneFileProgram, modules_of, one_file_program
from wms.kernel.rest import AnyClientNegotiation
from wms.kernel.rest.audience import Audience

#: Header of the client's SHA-256.
CLIENT_SHA256_HEADER = "X-Client-SHA256"
#: Answers with a program, for the OpenAPI document.
PROGRAM_ANSWERS = {
    (HTTPStatus.OK, "application/zip"): OpenApiTypes.BINARY,
    HTTPStatus.NOT_MODIFIED: OpenApiResponse(description="ETag of the program; as If-None-Match of the request."),
}


def sha256_parameter(header: str) -> OpenApiParameter:
    """Return the description of a header with the SHA-256 of a program."""
    return OpenApiParameter(
        header,
        str,
        OpenApiParameter.HEADER,
        response=[200, 304],
        description="SHA-256 of the program, in hexadecimal.",
    )


def program_answer(request: Request, program: OneFileProgram, *, sha256_header: str) -> HttpResponse:
    """Return the program; 304 if the client has it."""
    tag = f'"{program.sha256}"'
    tags = [each.strip().removeprefix("W/") for each in request.headers.get("If-None-Match", "").split(",")]
    if tag in tags or "*" in tags:
        response = HttpResponse(status=HTTPStatus.NOT_MODIFIED)
    else:
        response = HttpResponse(program.content, content_type="application/zip")
        response["Content-Disposition"] = f'attachment; filename="{program.name}"'
    response["ETag"] = tag
    response["Cache-Control"] = "public, no-cache"  # stored, but checked for changes at each use
    response[sha256_header] = program.sha256
    return response


class ClientView(APIView):
    """The command line; without authentication: who logs in by it has no token yet, and it contains no secret."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="client_program",
        summary="Download the command line as one file",
        tags=[Audience.USERS],
        responses=PROGRAM_ANSWERS,
        parameters=[sha256_parameter(CLIENT_SHA256_HEADER)],
    )
    def get(self, request: Request) -> HttpResponse:
        """Fetch `wms`, a Python zipapp of one file: `python3 wms.pyz --help`."""
        return program_answer(request, client_package(), sha256_header=CLIENT_SHA256_HEADER)


@cache
def client_package() -> OneFileProgram:
    """Return the client with the wire, as the package ``wms_client``; built once in each process."""
    modules = {**modules_of(wms.client, named="wms_client"), **modules_of(wms.wire, named="wms_client.wire")}
    start = "from wms_client.__main__ import run\n\nrun()"
    return one_file_program("wms.pyz", what="The command line", modules=modules, start=start)
