"""GET /api/v1/pilots/summary/: the efficiency of pilots, by place and VO."""

from datetime import timedelta

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from matching.queries.pilot_efficiency import GROUP_BY, Efficiency, efficiency, pilots_seen_by, total_of
from pilots.filters import PilotFilterSet
from pilots.models import Pilot
from wms.accounts.api.permissions import IsManager, user_of
from wms.kernel.clock import current_time
from wms.kernel.rest import GroupBy, StrictSerializer, checked_filters, error_responses
from wms.kernel.rest.audience import Audience

#: Default and maximum of the period, in hours.
DEFAULT_HOURS, MAX_HOURS = 24, 24 * 31


class PilotSummaryIn(StrictSerializer):
    """Query string of GET /api/v1/pilots/summary/, beside the filters."""

    known_elsewhere = frozenset(PilotFilterSet.base_filters)

    group_by = GroupBy(tuple(GROUP_BY), counted="Pilots", default_name="site")
    hours = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=MAX_HOURS,
        help_text=f"Count pilots submitted in the last so many hours; default {DEFAULT_HOURS}.",
    )


class PilotTallyOut(serializers.Serializer[Efficiency]):
    """The pilots of one place or VO; submitted = waiting + stalled + running + done + aborted + failed + lost."""

    values = serializers.DictField(
        child=serializers.CharField(allow_null=True),
        help_text="Values of group_by by name; null: the pilot was made by hand, or the queue was removed.",
    )
    submitted = serializers.IntegerField(help_text="All pilots, including those that registered themselves.")
    waiting = serializers.IntegerField(help_text="Not started yet, and not stalled.")
    stalled = serializers.IntegerField(help_text="Not started in time, and therefore killed.")
    running = serializers.IntegerField(help_text="Started, and not yet ended.")
    matched = serializers.IntegerField(help_text="Pilots that got at least one job.")
    empty = serializers.IntegerField(help_text="Ended normally without a job.")
    done = serializers.IntegerField(help_text="Ended normally.")
    aborted = serializers.IntegerField(help_text="Not started before their end, or killed.")
    failed = serializers.IntegerField(help_text="Ended with an error.")
    lost = serializers.IntegerField(help_text="Lost: their heartbeats stopped.")
    jobs = serializers.IntegerField(help_text="Number of leases of these pilots.")
    jobs_per_pilot = serializers.FloatField(
        allow_null=True, help_text="Mean number of jobs of pilots that got at least one; null: none did."
    )
    efficiency = serializers.FloatField(
        allow_null=True,
        help_text="matched, divided by the pilots that have ended or got a job, 0 to 1; null: there are none.",
    )


class PilotSummaryOut(serializers.Serializer[object]):
    """The efficiency of pilots."""

    since = serializers.DateTimeField(help_text="Beginning of the period.")
    group_by = serializers.ListField(
        child=serializers.ChoiceField(choices=list(GROUP_BY)), help_text="Properties counted by, in this order."
    )
    results = PilotTallyOut(many=True, help_text="One row for each combination that occurs.")
    total = PilotTallyOut(help_text="The sums of all rows, without values.")


class PilotSummaryView(GenericAPIView[Pilot]):
    """The efficiency of pilots, for managers and operators."""

    permission_classes = (IsManager,)
    filterset_class = PilotFilterSet

    @extend_schema(
        operation_id="pilots_summary",
        summary="Count pilots and their efficiency, by site, CE, queue or VO",
        tags=[Audience.MANAGERS],
        parameters=[PilotSummaryIn],
        filters=True,
        responses={200: PilotSummaryOut, **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Count the pilots of the VOs that the caller manages, for an operator all; the filters of the list apply."""
        query = PilotSummaryIn.checked(request.query_params)
        group_by = query.get("group_by", ("site",))
        since = current_time() - timedelta(hours=query.get("hours", DEFAULT_HOURS))
        pilots = pilots_seen_by(user_of(request))
        filters = checked_filters(PilotFilterSet, request.query_params, pilots, also=[*PilotSummaryIn().fields])
        results = efficiency(filters.qs, group_by=group_by, since=since)
        values = {"since": since, "group_by": group_by, "results": results, "total": total_of(results)}
        return Response(PilotSummaryOut(values).data)
