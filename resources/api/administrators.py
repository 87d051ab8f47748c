"""Administrators of a site over REST."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.api.permissions import OverseesSites
from resources.api.tokens import changeable_site
from resources.models import SiteAdministrator
from resources.services.administrators import end_administrator, make_administrator
from wms.accounts.api.permissions import IsOperator, user_named, user_of
from wms.accounts.domain import TokenScope
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, DeletionIn, error_responses, transaction_of
from wms.kernel.rest.audience import Audience


class SiteAdministratorOut(serializers.Serializer[SiteAdministrator]):
    """An administrator of a site."""

    username = serializers.CharField(source="user.username", help_text="User name.")
    made_by = serializers.CharField(
        source="made_by.username", default=None, allow_null=True, help_text="Who gave the role; null: a file."
    )
    made_at = serializers.DateTimeField(help_text="When it was given.")


class SiteAdministratorsOut(serializers.Serializer[Any]):
    """The administrators of a site."""

    administrators = SiteAdministratorOut(many=True, help_text="By user name.")


class SiteAdministratorsView(APIView):
    """The administrators of a site."""

    permission_classes = (OverseesSites,)

    @extend_schema(
        operation_id="sites_administrators",
        summary="List the administrators of a site",
        tags=[Audience.MANAGERS],
        responses={200: SiteAdministratorsOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, site: str) -> Response:
        """Return them, to those who may change the site."""
        row = changeable_site(request, site)
        administrators = row.administrations.select_related("user", "made_by").order_by("user__username")
        return Response(SiteAdministratorsOut({"administrators": administrators}).data)


class SiteAdministratorView(APIView):
    """One user as administrator of a site."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="sites_administrator_set",
        summary="Make a user an administrator of a site; one who is stays so",
        tags=[Audience.MANAGERS],
        request=ChangeIn,
        responses={200: SiteAdministratorOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def put(self, request: Request, site: str, username: str) -> Response:
        """Make the user an administrator of the site."""
        values, row, user = ChangeIn.checked(request.data), changeable_site(request, site), user_named(username)
        with transaction_of(values):
            make_administrator(row, user, by=user_of(request), now=current_time())
            answer = SiteAdministratorOut(SiteAdministrator.objects.get(site=row, user=user)).data
        return Response(answer)

    @extend_schema(
        operation_id="sites_administrator_end",
        summary="End the role of an administrator of a site",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, site: str, username: str) -> Response:
        """End the role; of a user who does not have it nothing is changed."""
        values, row = DeletionIn.checked(request.query_params), changeable_site(request, site)
        user = user_named(username)
        with transaction_of(values):
            end_administrator(row, user, by=user_of(request))
        return Response(status=204)
