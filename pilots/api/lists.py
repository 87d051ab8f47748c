"""GET /api/v1/pilots/: the list of pilots, for people."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from pilots.filters import PilotFilterSet
from pilots.models import Pilot
from pilots.queries import in_list
from wms.accounts.api.permissions import IsUser, user_of
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience


class PilotPages(CursorPages):
    """Pilots by id, newest first."""

    orderings = ("-id", "id")


class PilotRowOut(serializers.Serializer[Pilot]):
    """One pilot as a row of a list."""

    id = serializers.IntegerField(help_text="Id of the pilot.")
    status = serializers.CharField(help_text="Status of the pilot.")
    status_reason = serializers.CharField(help_text="Reason of the status, in words.")
    vo = serializers.CharField(source="vo.name", help_text="VO whose jobs it runs.")
    group = serializers.SerializerMethodField(
        help_text="Group of a private pilot; null: generic, or the caller sees it as administrator of its site only."
    )
    owner = serializers.SerializerMethodField(
        help_text="Owner of a private pilot; null: it runs jobs of the whole group, or VO, or as for `group`."
    )
    site = serializers.SerializerMethodField(help_text="Site; null: unknown.")
    ce = serializers.SerializerMethodField(help_text="Computing element; null: unknown.")
    queue = serializers.CharField(
        source="queue.name", default=None, allow_null=True, help_text="Batch queue; null: unknown."
    )
    host = serializers.CharField(source="host_name", help_text="Host on which it runs; empty: unknown.")
    submitted_at = serializers.DateTimeField(help_text="Time of its submission, or of its registration.")
    started_at = serializers.DateTimeField(allow_null=True, help_text="Time of its start.")
    last_seen_at = serializers.DateTimeField(allow_null=True, help_text="Time of its last request.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="Time of its end.")
    cut_usage = serializers.CharField(
        help_text="The last job for which it reported more CPU or wall-clock time than its lease allows, with what was "
        "counted; empty: none."
    )

    def get_group(self, pilot: Pilot) -> str | None:
        """Return the group of a private pilot."""
        return None if pilot.group is None or pilot.is_of_others else pilot.group.name

    def get_owner(self, pilot: Pilot) -> str | None:
        """Return the owner of a private pilot."""
        return None if pilot.owner is None or pilot.is_of_others else pilot.owner.username

    def get_site(self, pilot: Pilot) -> str | None:
        """Return the site of its queue, else the one that it was made for."""
        site = pilot.queue.ce.site if pilot.queue else pilot.site
        return site.name if site else None

    def get_ce(self, pilot: Pilot) -> str | None:
        """Return the computing element of its queue, else the one that it was made for."""
        ce = pilot.queue.ce if pilot.queue else pilot.ce
        return ce.name if ce else None


class PilotListView(ListAPIView[Pilot]):
    """Pilots that the caller may see."""

    permission_classes = (IsUser,)
    serializer_class = PilotRowOut
    pagination_class = PilotPages
    filterset_class = PilotFilterSet

    def get_queryset(self) -> QuerySet[Pilot]:
        """Return the pilots that the caller may see."""
        return in_list(Pilot.objects.visible_to(user_of(self.request)))

    @extend_schema(
        operation_id="pilots_list",
        summary="Find pilots: of managed VOs, at administered sites, and one's own private ones; operators: all",
        tags=[Audience.USERS],
        responses={200: PilotRowOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of pilots, newest first."""
        return self.list(request)
