"""Download of the program that advertises a site."""

from http import HTTPStatus

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from resources.gateway_package import FILE_NAME, gateway_package
from wms.kernel.rest import AnyClientNegotiation
from wms.kernel.rest.audience import Audience


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
        response = HttpResponse(gateway_package(), content_type="text/x-python")
        response["Content-Disposition"] = f'attachment; filename="{FILE_NAME}"'
        response["Cache-Control"] = "no-cache"
        return response
