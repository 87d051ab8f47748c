"""Download of the program that advertises a site."""

from functools import cache
from http import HTTPStatus
from pathlib import Path

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

import resources.gateway
from wms.kernel.rest import AnyClientNegotiation
from wms.kernel.rest.audience import Audience

FILE_NAME = "wms_advertise.py"


@cache
def _program() -> bytes:
    """Return the file; read once in each process."""
    return (Path(resources.gateway.__path__[0]) / FILE_NAME).read_bytes()


class AdvertiserView(APIView):
    """The program wms-advertise; without authentication, because it contains no secret."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="gateway_advertiser",
        summary="Download the program that counts job managers at a gateway and advertises them",
        tags=[Audience.SITES],
        responses={(HTTPStatus.OK, "text/x-python"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:  # noqa: ARG002 - the framework's signature
        """Fetch `wms-advertise`, one file for Python 3.9 or newer: `python3 wms_advertise.py --help`."""
        response = HttpResponse(_program(), content_type="text/x-python")
        response["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        response["Cache-Control"] = "no-cache"
        return response
