"""GET /api/v1/leases/: who ran where, and when."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from matching.filters import LeaseFilterSet
from matching.models import Match
from matching.queries.leases import leases_seen_by
from wms.accounts.api.permissions import IsManager, user_of
from wms.kernel.clock import current_time
from wms.kernel.rest import PAGE_PARAMETERS, CursorPages, checked_filters, error_responses
from wms.kernel.rest.audience import Audience


class LeasePages(CursorPages):
    """Leases, the newest first."""

    orderings = ("-leased_at", "leased_at")


class LeaseRowOut(serializers.Serializer[Any]):
    """One lease: a job that a pilot had."""

    match_id = serializers.UUIDField(source="pk", help_text="Id of the lease.")
    job = serializers.IntegerField(source="job_id", help_text="Id of the job.")
    owner = serializers.CharField(source="job.owner.username", help_text="Owner of the job.")
    group = serializers.CharField(source="job.group.name", help_text="Its group.")
    vo = serializers.CharField(source="job.vo.name", help_text="Its VO.")
    pilot = serializers.IntegerField(source="pilot_id", help_text="Id of the pilot.")
    host = serializers.CharField(source="pilot.host_name", help_text="Host of the pilot; empty: unknown.")
    site = serializers.CharField(
        source="queue.ce.site.name", default=None, allow_null=True, help_text="Site; null: unknown."
    )
    ce = serializers.CharField(source="queue.ce.name", default=None, allow_null=True, help_text="CE; null: unknown.")
    queue = serializers.CharField(source="queue.name", default=None, allow_null=True, help_text="Queue; null: unknown.")
    leased_at = serializers.DateTimeField(help_text="Time of the match.")
    ended_at = serializers.DateTimeField(allow_null=True, help_text="End of the lease; null: it is open.")
    end_reason = serializers.CharField(help_text="How it ended; empty: it is open.")


class LeaseListView(ListAPIView[Match]):
    """Leases of the jobs of managed VOs."""

    permission_classes = (IsManager,)
    serializer_class = LeaseRowOut
    pagination_class = LeasePages
    filterset_class = LeaseFilterSet

    def get_queryset(self) -> QuerySet[Match]:
        """Return the leases of the period that the query string names."""
        filters = checked_filters(LeaseFilterSet, self.request.query_params, Match.objects.none(), also=PAGE_PARAMETERS)
        since, until = filters.period(now=current_time())
        return leases_seen_by(user_of(self.request), since=since, until=until)

    @extend_schema(
        operation_id="leases_list",
        summary="List leases: who ran where and when, attempts that were rescheduled included",
        tags=[Audience.MANAGERS],
        responses={200: LeaseRowOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of leases of jobs of VOs that the caller manages, the newest first."""
        return self.list(request)
