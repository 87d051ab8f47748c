"""The configured resources over REST."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from resources.api.serializers import SiteOut
from resources.filters import SiteFilterSet
from resources.models import Site
from resources.queries import visible_sites
from wms.accounts.api.permissions import IsUser, user_of
from wms.kernel.rest import PAGE_PARAMETERS, CursorPages, checked_filters, error_responses
from wms.kernel.rest.audience import Audience


class SitePages(CursorPages):
    """Sites by name."""

    orderings = ("name", "-name")


class SiteListView(ListAPIView[Site]):
    """Sites that serve the caller's VOs."""

    permission_classes = (IsUser,)
    serializer_class = SiteOut
    pagination_class = SitePages
    filterset_class = SiteFilterSet

    def get_queryset(self) -> QuerySet[Site]:
        """Return the sites that the caller may see."""
        return visible_sites.site_trees(user_of(self.request))

    def get_serializer_context(self) -> dict[str, object]:
        """Pass the names of the requested VOs to the serializers."""
        filters = checked_filters(SiteFilterSet, self.request.query_params, Site.objects.none(), also=PAGE_PARAMETERS)
        name = filters.form.cleaned_data["vo"] or None
        return {**super().get_serializer_context(), "vos": visible_sites.visible_vos(user_of(self.request), vo=name)}

    @extend_schema(
        operation_id="sites_list",
        summary="List the sites of the caller's VOs with their computing elements and queues; an operator sees all",
        tags=[Audience.USERS],
        responses={200: SiteOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of sites."""
        return self.list(request)
