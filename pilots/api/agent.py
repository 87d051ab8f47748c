"""Download of the pilot agent, and of the script that starts it."""

from http import HTTPStatus

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.views import APIView

from pilots.agent_package import agent_package
from pilots.backends.script import site_script
from wms.kernel.rest import AnyClientNegotiation
from wms.kernel.rest.audience import Audience
from wms.kernel.rest.programs import PROGRAM_ANSWERS, program_answer, sha256_parameter

SHA256_HEADER = "X-Agent-SHA256"
SCRIPT_NAME = "pilot.sh"


class AgentView(APIView):
    """The program of the pilots.

    No authentication: a pilot that installs itself has no token yet, and the program contains no secret.
    """

    authentication_classes = ()
    permission_classes = (AllowAny,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="pilots_agent",
        summary="Download the program that pilots run",
        tags=[Audience.PILOTS],
        responses=PROGRAM_ANSWERS,
        parameters=[sha256_parameter(SHA256_HEADER)],
    )
    def get(self, request: Request) -> HttpResponse:
        """Fetch the agent, a Python zipapp of one file: `python3 agent.pyz --help`."""
        return program_answer(request, agent_package(), sha256_header=SHA256_HEADER)


class ScriptView(APIView):
    """The script that starts a pilot; without authentication, because it contains no secret."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    content_negotiation_class = AnyClientNegotiation

    @extend_schema(
        operation_id="pilots_script",
        summary="Download the shell script with which a site starts a pilot",
        tags=[Audience.PILOTS],
        responses={(HTTPStatus.OK, "text/x-shellscript"): OpenApiTypes.STR},
    )
    def get(self, request: Request) -> HttpResponse:
        """Fetch the script and run it: `curl -s …/api/v1/pilots/pilot.sh | sh -s -- --help`.

        It finds a Python, fetches the agent, verifies its SHA-256, and becomes it; its arguments are the agent's.
        """
        response = HttpResponse(site_script(server_url=settings.WMS_SERVER_URL), content_type="text/x-shellscript")
        response["Content-Disposition"] = f'attachment; filename="{SCRIPT_NAME}"'
        response["Cache-Control"] = "no-cache"
        return response
