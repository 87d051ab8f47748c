"""The program that advertises a site, for whoever installs it at a gateway."""

from functools import cache
from http import HTTPStatus
from pathlib import Path

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

import resources.gateway

FILE_NAME = "wms_advertise.py"


@cache
def _program() -> bytes:
    """Return the file; read once in each process."""
    return (Path(resources.gateway.__path__[0]) / FILE_NAME).read_bytes()


class AdvertiserView(APIView):
    """wms-advertise; open to everybody, for there is no secret in it."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def perform_content_negotiation(self, request: Request, force: bool = False) -> tuple[BaseRenderer, str]:  # noqa: ARG002, FBT001, FBT002 - the framework's signature
        """Give it to any client, whatever that says it accepts: there is only one form."""
        return super().perform_content_negotiation(request, force=True)

    @extend_schema(
        operation_id="gateway_advertiser",
        summary="The program that counts job-managers at a gateway and advertises them",
        tags=["resources"],
        responses={(HTTPStatus.OK, "text/x-python"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:  # noqa: ARG002 - the framework's signature
        """Fetch `wms-advertise`, one file for Python 3.9 or newer: `python3 wms_advertise.py --help`."""
        response = HttpResponse(_program(), content_type="text/x-python")
        response["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        response["Cache-Control"] = "no-cache"
        return response
