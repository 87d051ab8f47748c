"""Log-in, tokens and groups over REST."""

from datetime import timedelta
from http import HTTPStatus

from django.conf import settings
from django.db.models import QuerySet
from django_filters import FilterSet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts import queries, services
from wms.accounts.api.authentication import UserCredential
from wms.accounts.api.permissions import IsUser, user_of
from wms.accounts.api.serializers import GroupOut, ListedTokenOut, ProfileOut, TokenIn, TokenOut
from wms.accounts.domain import TokenScope
from wms.accounts.filters import GroupFilterSet
from wms.accounts.models import ApiToken, Group
from wms.accounts.services.second_factors import prove_second_factor
from wms.kernel.addresses import client_address
from wms.kernel.clock import current_time
from wms.kernel.errors import RejectedError
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience


class NoTokenError(RejectedError):
    """The caller has a session, not a token, so that there is nothing to revoke."""

    code = "no_token"


class LifetimeTooLongError(RejectedError):
    """The requested lifetime of a token is longer than allowed."""

    code = "lifetime_too_long"


class TokenView(APIView):
    """Log-in."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    @extend_schema(
        operation_id="auth_token_create",
        summary="Log in: exchange user name and password for a bearer token",
        tags=[Audience.USERS],
        request=TokenIn,
        responses={201: TokenOut, **error_responses(400, 401, 403, 409, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Return a new token of the user.

        The answer sets a cookie that identifies the client: if the client sends it at its next log-in, wrong passwords
        of others at its address do not delay it. So does a delayed log-in (429): a client that sends this cookie
        20 seconds later is not delayed again.
        """
        values, now = TokenIn.checked(request.data), current_time()
        lifetime = lifetime_of(values.get("days"))
        device = services.known_device(request.COOKIES, username=values["username"])
        user = services.log_in(
            username=values["username"],
            password=values["password"],
            address=client_address(request),
            now=now,
            device=device,
            waited_device=services.waited_device(request.COOKIES, username=values["username"], now=now),
        )
        prove_second_factor(user, values.get("code", ""), device=device, now=now)
        issued = services.issue_token(
            user,
            now=now,
            scope=TokenScope(values["scope"]),
            name=values.get("name", ""),
            lifetime=lifetime,
        )
        response = Response(TokenOut(issued).data, status=HTTPStatus.CREATED, headers={"Cache-Control": "no-store"})
        services.remember_device(response, user, path=request.path)
        return response

    def handle_exception(self, exc: Exception) -> Response:
        """Answer as every view; a client whose log-in is delayed also gets the cookie that shortens its wait."""
        response = super().handle_exception(exc)
        if isinstance(exc, services.TooManyFailuresError):
            username, path = TokenIn.checked(self.request.data)["username"], self.request.path
            now = current_time()
            services.let_device_wait(response, self.request.COOKIES, username=username, path=path, now=now)
        return response


def lifetime_of(days: int | None) -> timedelta | None:
    """Return the lifetime of a token for *days*; None: the default.

    Raises:
        RejectedError: longer than WMS_USER_TOKEN_S.
    """
    if days is None:
        return None
    longest = settings.WMS_USER_TOKEN_S
    if days * 86400 > longest:
        sentence = f"A token lives for at most {longest / 86400:g} days (WMS_USER_TOKEN_S)."
        raise LifetimeTooLongError(sentence, errors={"days": [sentence]})
    return timedelta(days=days)


class TokenPages(CursorPages):
    """Tokens, the newest first."""

    orderings = ("-id", "id")


class TokenListView(ListAPIView[ApiToken]):
    """The caller's tokens."""

    permission_classes = (IsUser,)
    serializer_class = ListedTokenOut
    pagination_class = TokenPages
    filterset_class = FilterSet

    def get_queryset(self) -> QuerySet[ApiToken]:
        """Return the caller's valid tokens."""
        return queries.live_tokens(user_of(self.request), now=current_time())

    @extend_schema(
        operation_id="auth_tokens_list",
        summary="List the caller's tokens that are valid",
        tags=[Audience.USERS],
        responses={200: ListedTokenOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of tokens, without their secrets. POST /api/v1/auth/token/ and the portal issue new ones."""
        return self.list(request)


class TokenRevocationView(APIView):
    """One token."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="auth_tokens_revoke",
        summary="Revoke a token of the caller; operators: of any user",
        tags=[Audience.USERS],
        responses={204: None, **error_responses(401, 403, 404)},
    )
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke the token; 404 if it is no longer valid."""
        services.revoke_visible_token(token_id=pk, by=user_of(request), now=current_time())
        return Response(status=HTTPStatus.NO_CONTENT)


class ProfileView(APIView):
    """The caller's own account."""

    permission_classes = (IsUser,)

    @extend_schema(
        operation_id="auth_me",
        summary="Show the caller's account: groups, roles, certificates",
        tags=[Audience.USERS],
        responses={200: ProfileOut, **error_responses(401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return the caller's profile."""
        return Response(ProfileOut(queries.profile_of(user_of(request))).data)


class RevokeView(APIView):
    """Log-out of a token."""

    permission_classes = (IsUser,)
    token_scope = TokenScope.READ  # each token may end itself

    @extend_schema(
        operation_id="auth_revoke",
        summary="Revoke the token of this request",
        tags=[Audience.USERS],
        request=None,
        responses={204: None, **error_responses(400, 401, 403)},
    )
    def post(self, request: Request) -> Response:
        """Revoke the caller's token."""
        if not isinstance(request.auth, UserCredential):
            raise NoTokenError("You are logged in by a session, not by a token; log out in the portal.")
        services.revoke_token(token_id=request.auth.token_id, now=current_time())
        return Response(status=HTTPStatus.NO_CONTENT)


class GroupPages(CursorPages):
    """Groups by name."""

    orderings = ("name", "-name", "priority", "-priority")


class GroupListView(ListAPIView[Group]):
    """Groups of the caller's VOs."""

    permission_classes = (IsUser,)
    serializer_class = GroupOut
    pagination_class = GroupPages
    filterset_class = GroupFilterSet

    def get_queryset(self) -> QuerySet[Group]:
        """Return the groups that the caller may see."""
        return Group.objects.visible_to(user_of(self.request)).select_related("vo")

    @extend_schema(
        operation_id="groups_list",
        summary="List the groups of the caller's VOs; operators: of all VOs",
        tags=[Audience.USERS],
        responses={200: GroupOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of groups."""
        return self.list(request)
