"""Log-in by OpenID Connect over REST: the device flow, for clients without a browser."""

from http import HTTPStatus

from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts import services
from wms.accounts.api.serializers import (
    DeviceLogInOut,
    DeviceTokenIn,
    ProvidersOut,
    TokenOut,
    UnfinishedLogInOut,
)
from wms.accounts.api.views import lifetime_of
from wms.accounts.domain import TokenScope
from wms.accounts.oidc.configuration import providers
from wms.accounts.services import device_log_ins
from wms.accounts.services.device_log_ins import NoProviderError, UnfinishedLogIn
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time
from wms.kernel.rest import error_responses
from wms.kernel.rest.audience import Audience

#: Answers hold secrets of a log-in.
_NOT_STORED = {"Cache-Control": "no-store"}


class ProvidersView(APIView):
    """The providers of OpenID Connect."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="auth_oidc_list",
        summary="List the providers of OpenID Connect by which people log in",
        tags=[Audience.USERS],
        responses={200: ProvidersOut, **error_responses(404)},
    )
    def get(self, _request: Request) -> Response:
        """Return the configured providers; 404 if there is none."""
        found = providers()
        if not found:
            raise NoProviderError("This server has no provider of OpenID Connect; log in by user name and password.")
        return Response(ProvidersOut({"providers": list(found.values())}).data)


class DeviceLogInView(APIView):
    """The beginning of a log-in by the device flow."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="auth_oidc_device",
        summary="Begin a log-in that a person confirms in a browser anywhere (device flow)",
        tags=[Audience.USERS],
        request=None,
        responses={201: DeviceLogInOut, **error_responses(400, 404, 409, 415, 429, 503)},
    )
    def post(self, request: Request, provider: str) -> Response:
        """Return the page to open, the code to type there, and the handle by which the client asks for its token."""
        begun = device_log_ins.begin_device_log_in(
            device_log_ins.provider_by_id(provider), address=client_address(request), now=current_time()
        )
        return Response(DeviceLogInOut(begun).data, status=HTTPStatus.CREATED, headers=_NOT_STORED)


class DeviceTokenView(APIView):
    """The end of a log-in by the device flow."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="auth_oidc_token",
        summary="Exchange a log-in by the device flow for a bearer token, once its person has confirmed it",
        tags=[Audience.USERS],
        request=DeviceTokenIn,
        responses={201: TokenOut, 202: UnfinishedLogInOut, **error_responses(400, 401, 403, 404, 409, 415, 429, 503)},
    )
    def post(self, request: Request, provider: str) -> Response:
        """Return a new token of the user (201), or that the log-in is not complete yet (202).

        Repeat the request after the interval of the log-in; if a code is needed, with the code and the new handle.
        """
        found = device_log_ins.provider_by_id(provider)
        values, now = DeviceTokenIn.checked(request.data), current_time()
        lifetime = lifetime_of(values.get("days"))
        outcome = device_log_ins.continue_device_log_in(
            found, values["handle"], code=values.get("code", ""), address=client_address(request), now=now
        )
        if isinstance(outcome, UnfinishedLogIn):
            return Response(UnfinishedLogInOut(outcome).data, status=HTTPStatus.ACCEPTED, headers=_NOT_STORED)
        issued = services.issue_token(
            outcome, now=now, scope=TokenScope(values["scope"]), name=values.get("name", ""), lifetime=lifetime
        )
        return Response(TokenOut(issued).data, status=HTTPStatus.CREATED, headers=_NOT_STORED)
