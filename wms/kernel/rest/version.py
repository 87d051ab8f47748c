"""The version of the server (docs/rest.md, Versions).

NB: not exported by wms.kernel.rest, whose docstring has the reason: this imports the framework's views.
"""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.kernel.clients import oldest_client
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience
from wms.wire.version import __version__

#: The number in the addresses.
API_VERSION = 1


class VersionOut(serializers.Serializer[Any]):
    """The versions of a server."""

    version = serializers.CharField(help_text="Version of the server.")
    api_version = serializers.IntegerField(help_text="Version of the interface, as in its addresses.")
    oldest_client = serializers.CharField(help_text="Oldest version of wms-client that the server serves.")


class VersionView(APIView):
    """The version of the server; without authentication, so that each client can read it, also one that is too old."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="version",
        summary="Show the version of the server",
        tags=[Audience.USERS],
        responses={200: VersionOut, **error_responses(406)},
    )
    def get(self, request: Request) -> Response:
        """Return the version of the server, and that of the oldest client that it serves."""
        return Response({"version": __version__, "api_version": API_VERSION, "oldest_client": oldest_client()})
