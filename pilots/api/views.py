"""Registration, configuration and reports of pilots."""

from http import HTTPStatus

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.api.permissions import IsPilot, MayRegisterPilots, pilot_of, registrar_of
from pilots.api.serializers import (
    ConfigurationOut,
    LastWords,
    RegisteredPilotOut,
    RegistrationIn,
    ReportIn,
    ReportOut,
)
from pilots.domain.pilot import SecretCredential
from pilots.queries import configuration_of
from pilots.services import registration, reports
from pilots.services.tokens import renewed_token
from wms.kernel.clock import current_time
from wms.kernel.db import database_now
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience


class RegisterView(APIView):
    """Registration, the first request of a pilot."""

    permission_classes = (MayRegisterPilots,)

    @extend_schema(
        operation_id="pilots_register",
        summary="Register a pilot that has started",
        tags=[Audience.PILOTS],
        request=RegistrationIn,
        responses={HTTPStatus.CREATED: RegisteredPilotOut, **error_responses(400, 401, 403, 409, 415)},
    )
    def post(self, request: Request) -> Response:
        """Exchange a director's secret for the token of its pilot, or a site's token for that of a new generic one."""
        registrar, body, now = registrar_of(request), RegistrationIn.parse(request.data), current_time()
        if isinstance(registrar, SecretCredential):
            registered = registration.register_sent(body, pilot_id=registrar.pilot_id, now=now)
        else:
            registered = registration.register(body, site_id=registrar.site_id, token_id=registrar.token_id, now=now)
        return Response(
            RegisteredPilotOut(registered).data, status=HTTPStatus.CREATED, headers={"Cache-Control": "no-store"}
        )


class ConfigurationView(APIView):
    """The configuration of a pilot."""

    permission_classes = (IsPilot,)

    @extend_schema(
        operation_id="pilots_config",
        summary="Show the configuration of the pilot",
        tags=[Audience.PILOTS],
        responses={HTTPStatus.OK: ConfigurationOut, **error_responses(401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return the configuration of the calling pilot."""
        pilot = reports.living_pilot(pilot_of(request).pilot_id)
        return Response(ConfigurationOut(configuration_of(pilot, server_time=database_now())).data)


class ReportView(APIView):
    """Reports of a pilot on its node and its end."""

    #: A node report of 16 KiB, and 100 checks with a sentence each.
    most_body_bytes = 256 * 1024
    permission_classes = (IsPilot,)

    @extend_schema(
        operation_id="pilots_report",
        summary="Report the result of the node check, a flaw found by a job, or the pilot's end",
        tags=[Audience.PILOTS],
        request=ReportIn,
        responses={HTTPStatus.OK: ReportOut, **error_responses(400, 401, 403, 415)},
    )
    def post(self, request: Request) -> Response:
        """Store the report; an unfit node or a last report ends the pilot."""
        credential, now, report = pilot_of(request), current_time(), ReportIn.parse(request.data)
        if isinstance(report, LastWords):
            pilot = reports.leave(pilot_id=credential.pilot_id, reason=report.reason, failed=report.failed, now=now)
        elif isinstance(report, reports.NodeFlaw):
            pilot = reports.record_flaw(report, pilot_id=credential.pilot_id, now=now)
        else:
            pilot = reports.record_node_check(report, pilot_id=credential.pilot_id, now=now)
        token = renewed_token(credential, now=now)
        return Response(ReportOut(pilot, context={"token": token}).data, headers={"Cache-Control": "no-store"})
