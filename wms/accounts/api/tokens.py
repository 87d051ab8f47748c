"""Tokens of people over REST, for operators; never their texts, of which only digests are stored."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsOperator, user_named
from wms.accounts.api.serializers import ListedTokenOut
from wms.accounts.api.views import TokenPages
from wms.accounts.domain import TokenScope
from wms.accounts.models import ApiToken
from wms.accounts.services import revoke_token, revoke_tokens_of
from wms.kernel.clock import current_time
from wms.kernel.rest import DeletionIn, error_responses, transaction_of
from wms.kernel.rest.audience import Audience


class UserTokenOut(ListedTokenOut):
    """One token of a user, also one that is no longer valid."""

    revoked_at = serializers.DateTimeField(allow_null=True, help_text="When it was revoked; null: it was not.")


class UserTokensView(GenericAPIView[ApiToken]):
    """The tokens of a user."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True
    serializer_class = UserTokenOut
    pagination_class = TokenPages

    def get_queryset(self) -> QuerySet[ApiToken]:
        """Return all tokens."""
        return ApiToken.objects.all()

    @extend_schema(
        operation_id="users_tokens_list",
        summary="List the tokens of a user, without their texts",
        tags=[Audience.MANAGERS],
        responses={200: UserTokenOut(many=True), **error_responses(400, 401, 403, 404)},
    )
    def get(self, _request: Request, username: str) -> Response:
        """Return one page of tokens, also of revoked and expired ones."""
        page = self.paginate_queryset(self.get_queryset().filter(user=user_named(username))) or []
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    @extend_schema(
        operation_id="users_tokens_revoke_all",
        summary="Revoke all tokens of a user",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, username: str) -> Response:
        """Revoke the tokens; sessions of the portal go on, and the user may make new ones."""
        values, user = DeletionIn.checked(request.query_params), user_named(username)
        with transaction_of(values):
            revoke_tokens_of(user, now=current_time())
        return Response(status=204)


class UserTokenView(APIView):
    """One token of a user."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="users_tokens_revoke",
        summary="Revoke a token of a user; one that is revoked stays so",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, username: str, pk: int) -> Response:
        """Revoke the token."""
        values = DeletionIn.checked(request.query_params)
        token = get_object_or_404(ApiToken, user=user_named(username), pk=pk)
        with transaction_of(values):
            revoke_token(token_id=token.pk, now=current_time())
        return Response(status=204)
