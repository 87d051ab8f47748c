"""Managers of a VO over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsManager, IsOperator, managed_vo, user_named, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.accounts.services.managers import end_manager, make_manager
from wms.kernel.rest import DeletionIn, ExplainedIn, error_responses, transaction_of
from wms.kernel.rest.audience import Audience


class VOManagerOut(serializers.Serializer[User]):
    """A manager of a VO."""

    username = serializers.CharField(help_text="User name.")
    staff = serializers.BooleanField(source="is_staff", help_text="Whether the administration opens for the user, too.")
    suspended = serializers.SerializerMethodField(help_text="Whether the user is suspended.")

    def get_suspended(self, user: User) -> bool:
        """Return whether the user is suspended."""
        return not user.is_active


class VOManagersOut(serializers.Serializer[Any]):
    """The managers of a VO."""

    managers = VOManagerOut(many=True, help_text="By user name.")


class VOManagersView(APIView):
    """The managers of a VO."""

    permission_classes = (IsManager,)

    @extend_schema(
        operation_id="vos_managers",
        summary="List the managers of a VO",
        tags=[Audience.MANAGERS],
        responses={200: VOManagersOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return them, to managers of the VO and to operators."""
        managers = managed_vo(request, name).managers.order_by("username")
        return Response(VOManagersOut({"managers": managers}).data)


class VOManagerView(APIView):
    """One user as manager of a VO."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="vos_manager_set",
        summary="Make a user a manager of a VO; one who is stays so",
        tags=[Audience.MANAGERS],
        request=ExplainedIn,
        responses={200: VOManagerOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Make the user a manager of the VO; the administration opens only with the staff status besides."""
        values, vo, user = ExplainedIn.checked(request.data), managed_vo(request, name), user_named(username)
        with transaction_of(values):
            make_manager(vo, user, by=user_of(request), reason=values["reason"])
        return Response(VOManagerOut(user).data)

    @extend_schema(
        operation_id="vos_manager_end",
        summary="End the role of a manager of a VO",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        """End the role; of a user who does not have it nothing is changed."""
        values, vo, user = DeletionIn.checked(request.query_params), managed_vo(request, name), user_named(username)
        with transaction_of(values):
            end_manager(vo, user, by=user_of(request))
        return Response(status=204)
