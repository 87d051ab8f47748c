"""Tokens and administrators of a site over REST."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from resources.api.permissions import OverseesSites
from resources.domain.enums import SiteTokenPurpose
from resources.models import Site, SiteToken
from resources.queries.rights import require_may_change, sites_overseen_by
from resources.services.site_tokens import issue_site_token, revoke_site_token
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope, digest_of
from wms.kernel.clock import current_time
from wms.kernel.rest import ChangeIn, CursorPages, DeletionIn, EndIn, Name, end_in, error_responses, transaction_of
from wms.kernel.rest.audience import Audience

_PURPOSES = [str(purpose) for purpose in SiteTokenPurpose]


class SiteTokenIn(EndIn, ChangeIn):
    """A new token of a site."""

    purpose = serializers.ChoiceField(
        choices=_PURPOSES, help_text="register: pilots of the site register with it; advertise: gateways report loads."
    )
    setup = Name(
        max_length=64,
        required=False,
        default="",
        allow_blank=True,
        help_text="Setup of the pilots that register with it and choose none; empty: it chooses none either.",
    )


class SiteTokenOut(serializers.Serializer[Any]):
    """A token of a site, without its text."""

    id = serializers.IntegerField(help_text="Id of the token.")
    purpose = serializers.ChoiceField(choices=_PURPOSES, help_text="What it is for.")
    setup = serializers.CharField(help_text="Setup of the pilots that register with it; empty: none.")
    configured = serializers.BooleanField(help_text="Whether the configuration file sets it.")
    created_at = serializers.DateTimeField(help_text="When it was made.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="End of its validity; null: it does not expire.")
    registrations = serializers.IntegerField(help_text="Pilots that were registered with it.")
    registered_at = serializers.DateTimeField(allow_null=True, help_text="Last registration with it.")
    revoked_at = serializers.DateTimeField(allow_null=True, help_text="When it was revoked; null: it was not.")


class NewSiteTokenOut(serializers.Serializer[Any]):
    """A new token of a site, with its text, which is shown this once."""

    id = serializers.IntegerField(allow_null=True, help_text="Id of the token; null: of a dry run.")
    token = serializers.CharField(allow_null=True, help_text="The token; null: of a dry run.")
    purpose = serializers.ChoiceField(choices=_PURPOSES, help_text="What it is for.")
    expires_at = serializers.DateTimeField(allow_null=True, help_text="End of its validity; null: it does not expire.")


class SiteTokenPages(CursorPages):
    """Tokens, the newest first."""

    orderings = ("-id", "id")


class SiteTokensView(GenericAPIView[SiteToken]):
    """The tokens of a site."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True
    serializer_class = SiteTokenOut
    pagination_class = SiteTokenPages

    def get_queryset(self) -> QuerySet[SiteToken]:
        """Return all tokens."""
        return SiteToken.objects.all()

    @extend_schema(
        operation_id="sites_tokens_list",
        summary="List the tokens of a site, without their texts",
        tags=[Audience.MANAGERS],
        responses={200: SiteTokenOut(many=True), **error_responses(400, 401, 403, 404)},
    )
    def get(self, request: Request, site: str) -> Response:
        """Return one page of tokens, for those who may change the site."""
        row = changeable_site(request, site)
        page = self.paginate_queryset(self.get_queryset().filter(site=row)) or []
        return self.get_paginated_response(SiteTokenOut(page, many=True).data)

    @extend_schema(
        operation_id="sites_tokens_issue",
        summary="Make a token of a site; its text is shown once",
        tags=[Audience.MANAGERS],
        request=SiteTokenIn,
        responses={201: NewSiteTokenOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def post(self, request: Request, site: str) -> Response:
        """Make a token; earlier ones stay valid until they expire or are revoked.

        Administrators of the site may do this, managers at sites that serve only their VOs, and operators everywhere.
        """
        values, row, now = SiteTokenIn.checked(request.data), changeable_site(request, site), current_time()
        with transaction_of(values):
            plain = issue_site_token(
                row,
                purpose=SiteTokenPurpose(values["purpose"]),
                now=now,
                setup=values["setup"],
                expires_at=end_in(values, now=now),
            )
            token = SiteToken.objects.get(digest=digest_of(plain))
        made = {"id": None, "token": None} if values["dry_run"] else {"id": token.pk, "token": plain}
        answer = NewSiteTokenOut({**made, "purpose": token.purpose, "expires_at": token.expires_at}).data
        return Response(answer, status=201)


class SiteTokenView(APIView):
    """One token of a site."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER
    needs_fresh_log_in = True

    @extend_schema(
        operation_id="sites_tokens_revoke",
        summary="Revoke a token of a site; one that is revoked stays so",
        tags=[Audience.MANAGERS],
        parameters=[DeletionIn],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, site: str, pk: int) -> Response:
        """Revoke the token; pilots that were registered with it go on."""
        values = DeletionIn.checked(request.query_params)
        row = get_object_or_404(SiteToken, site=changeable_site(request, site), pk=pk)
        with transaction_of(values):
            revoke_site_token(token_id=row.pk, now=current_time())
        return Response(status=204)


def changeable_site(request: Request, name: str) -> Site:
    """Return a site that the caller may change.

    Raises:
        Http404: there is none of this name that the caller oversees.
        ForbiddenError: the caller may not change it.
    """
    user = user_of(request)
    site = get_object_or_404(sites_overseen_by(user), name=name)
    require_may_change(site, user)
    return site
