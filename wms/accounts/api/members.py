"""Members of a group and its open invitations over REST."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from wms.accounts.api.permissions import IsManager, managed_group, user_of
from wms.accounts.domain import MAX_OPEN_INVITATIONS, TokenScope
from wms.accounts.models import Invitation, Membership, User
from wms.accounts.services.members import put_into_group, remove_from_group
from wms.kernel.clock import current_time
from wms.kernel.rest import CursorPages, DeletionIn, ExplainedIn, Name, StrictSerializer, error_responses
from wms.kernel.rest.audience import Audience


class MemberNameIn(StrictSerializer):
    """The user name in an address."""

    username = Name(max_length=150, validators=[User.username_validator], help_text="Exact user name.")


class GroupMemberOut(serializers.Serializer[Any]):
    """A member of a group."""

    username = serializers.CharField(source="user.username", help_text="User name.")
    given_by = serializers.SerializerMethodField(
        help_text="`manager`: it lasts; `claim`: an account at a provider of OpenID Connect states it."
    )
    confirmed_at = serializers.DateTimeField(
        allow_null=True, help_text="Of a membership by claim, the last log-in that confirmed it; null: of others."
    )
    suspended = serializers.SerializerMethodField(help_text="Whether the user is suspended.")

    def get_given_by(self, membership: Membership) -> str:
        """Return who gave the membership."""
        return "manager" if membership.confirmed_at is None else "claim"

    def get_suspended(self, membership: Membership) -> bool:
        """Return whether the user is suspended."""
        return not membership.user.is_active


class OpenInvitationOut(serializers.Serializer[Any]):
    """An open invitation; it does not say whether there is a user of this name."""

    username = serializers.CharField(help_text="The invited name.")
    expires_at = serializers.DateTimeField(help_text="Its end.")


class MemberStatusOut(serializers.Serializer[Any]):
    """A user name, and what it is in the group now."""

    username = serializers.CharField(help_text="User name.")
    status = serializers.ChoiceField(
        choices=["member", "invited"],
        help_text="`invited`: for a manager every name that is not in the VO, whether there is such a user or not.",
    )


class MemberPages(CursorPages):
    """Members, those who joined first at the beginning; each page has all open invitations beside them."""

    orderings = ("id", "-id")

    def get_paginated_response_schema(self, schema: dict[str, object]) -> dict[str, object]:
        """Return the OpenAPI schema of a page, with the invitations."""
        page: dict[str, Any] = super().get_paginated_response_schema(schema)
        texts = {"username": {}, "expires_at": {"format": "date-time"}}
        fields = OpenInvitationOut().fields
        properties = {
            name: {"type": "string", **texts[name], "description": str(field.help_text)}
            for name, field in fields.items()
        }
        invitations = {
            "type": "array",
            "items": {"type": "object", "required": [*fields], "properties": properties},
            "description": f"All open invitations, by name; at most {MAX_OPEN_INVITATIONS}.",
        }
        page["properties"]["invitations"] = invitations
        page["required"].append("invitations")
        return page


class GroupMembersView(GenericAPIView[Membership]):
    """The members of a group."""

    permission_classes = (IsManager,)
    serializer_class = GroupMemberOut
    pagination_class = MemberPages

    def get_queryset(self) -> QuerySet[Membership]:
        """Return the members."""
        return Membership.objects.select_related("user")

    @extend_schema(
        operation_id="groups_members",
        summary="List the members and the open invitations of a group",
        tags=[Audience.MANAGERS],
        responses={200: GroupMemberOut(many=True), **error_responses(400, 401, 403, 404)},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return one page of members of a group of a VO that the caller manages, and all open invitations."""
        group = managed_group(request, name)
        page = self.paginate_queryset(self.get_queryset().filter(group=group)) or []
        answer = self.get_paginated_response(GroupMemberOut(page, many=True).data)
        invitations = Invitation.objects.filter(group=group, expires_at__gt=current_time()).order_by("username")
        answer.data["invitations"] = OpenInvitationOut(invitations, many=True).data
        return answer


class GroupMemberView(APIView):
    """One user name in a group."""

    permission_classes = (IsManager,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="groups_member_set",
        summary="Make a user a member of a group, or invite the name",
        tags=[Audience.MANAGERS],
        request=ExplainedIn,
        responses={200: MemberStatusOut, **error_responses(400, 401, 403, 404, 409, 415, 429)},
    )
    def put(self, request: Request, name: str, username: str) -> Response:
        """Make the user a member, or invite the name; repeated, it changes nothing.

        A manager makes members of those who are in the VO already, an operator of every user; others are invited. The
        answer is the same whether there is a user of an invited name or not.
        """
        values, group = ExplainedIn.checked(request.data), managed_group(request, name)
        username = User.normalize_username(MemberNameIn.checked({"username": username})["username"])
        with transaction.atomic(durable=True):
            is_member = put_into_group(
                group, username, by=user_of(request), now=current_time(), reason=values["reason"]
            )
            transaction.set_rollback(values["dry_run"])
        return Response(MemberStatusOut({"username": username, "status": "member" if is_member else "invited"}).data)

    @extend_schema(
        operation_id="groups_member_end",
        summary="End the membership of a user in a group, or withdraw the invitation of the name",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, name: str, username: str) -> Response:
        """End the membership, and withdraw the invitation; 404 if there is neither."""
        values, group = DeletionIn.checked(request.query_params), managed_group(request, name)
        with transaction.atomic(durable=True):
            remove_from_group(group, User.normalize_username(username), by=user_of(request), now=current_time())
            transaction.set_rollback(values["dry_run"])
        return Response(status=204)
