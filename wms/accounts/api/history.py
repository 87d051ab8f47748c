"""GET /api/v1/history/: the changes of the configuration, for those who answer for it."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from wms.accounts.api.permissions import IsManager, user_of
from wms.accounts.filters import HistoryFilterSet
from wms.accounts.models import ConfigurationChange
from wms.accounts.queries import facts_for, history_for, managed_names
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience


class ConfigurationChangeOut(serializers.Serializer[ConfigurationChange]):
    """One change of a site, share, limit, membership or the like."""

    id = serializers.IntegerField(help_text="Id of the change.")
    at = serializers.DateTimeField(help_text="Time of the change.")
    kind = serializers.CharField(help_text="Kind of the change, such as configuration.changed.")
    who = serializers.CharField(
        source="actor_name", help_text="User name, or the command of the server; empty: nobody known."
    )
    target = serializers.CharField(help_text='What was changed, such as "group lhcb_user".')
    facts = serializers.SerializerMethodField(
        help_text="What was done; `changes` has by field the old and the new value, or the added and removed names."
    )

    @extend_schema_field(serializers.DictField())
    def get_facts(self, event: ConfigurationChange) -> dict[str, object]:
        """Return the facts that the caller may see."""
        return {**facts_for(event, vos=self.context["vos"])}


class HistoryPages(CursorPages):
    """Changes, the newest first."""

    orderings = ("-id", "id")


class HistoryView(ListAPIView[ConfigurationChange]):
    """The changes of the configuration."""

    permission_classes = (IsManager,)
    serializer_class = ConfigurationChangeOut
    pagination_class = HistoryPages
    filterset_class = HistoryFilterSet

    def get_queryset(self) -> QuerySet[ConfigurationChange]:
        """Return the changes that the caller may see."""
        return history_for(user_of(self.request))

    def get_serializer_context(self) -> dict[str, object]:
        """Return Django REST framework's context, and the names of the VOs that the caller manages."""
        return {**super().get_serializer_context(), "vos": managed_names(user_of(self.request))}

    @extend_schema(
        operation_id="history_list",
        summary="List changes of the configuration, through any door: of VOs that the caller manages; operators: all",
        tags=[Audience.MANAGERS],
        responses={200: ConfigurationChangeOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of changes, the newest first."""
        return self.list(request)
