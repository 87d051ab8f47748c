"""GET /api/v1/sites/{site}/failures/: attempts that failed at a site lately."""

from typing import Any, Final

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from matching.models import Match
from matching.queries.site_failures import PHASES, failures_at
from resources.api.permissions import OverseesSites
from resources.queries.rights import sites_overseen_by
from wms.accounts.api.permissions import user_of
from wms.kernel.clock import current_time
from wms.kernel.rest import CursorPages, error_responses
from wms.kernel.rest.audience import Audience

#: Last lines of output that are shown.
_LINES: Final = 5
_UNKNOWN: Final = "unknown"


class SiteFailureOut(serializers.Serializer[Any]):
    """One failed attempt at a site; it names neither the job nor its owner."""

    host = serializers.CharField(source="pilot.host_name", help_text="Host of the pilot; empty: unknown.")
    pilot = serializers.IntegerField(source="pilot_id", help_text="Id of the pilot.")
    leased_at = serializers.DateTimeField(help_text="Time of the match.")
    ended_at = serializers.DateTimeField(help_text="End of the attempt.")
    phase = serializers.SerializerMethodField(
        help_text="`preparation`: before the payload; `payload`; `output`: after it; `silence`: no heartbeats came."
    )
    exit_code = serializers.IntegerField(
        allow_null=True, help_text="Of the payload; null: it did not end by itself, or the job ran again elsewhere."
    )
    ended = serializers.CharField(source="end_reason", help_text="How the lease ended.")
    reason = serializers.CharField(help_text="Words of the failure; empty unless the job's VO lets sites see them.")
    lines = serializers.SerializerMethodField(
        help_text=f"Last {_LINES} lines of the payload's output; empty unless the job's VO lets sites see them."
    )

    @extend_schema_field(serializers.ChoiceField(choices=[*PHASES.values(), _UNKNOWN]))
    def get_phase(self, lease: Match) -> str:
        """Return the phase in which the attempt was."""
        return PHASES.get(vars(lease)["status_before"], _UNKNOWN)

    def get_lines(self, lease: Match) -> str:
        """Return the last lines of standard error, else of standard output."""
        text: str = vars(lease)["std_error"] or vars(lease)["std_output"] or ""
        return "\n".join(text.splitlines()[-_LINES:])


class SiteFailurePages(CursorPages):
    """Failed attempts by the time of their match, the newest first."""

    orderings = ("-leased_at", "leased_at")


class SiteFailuresView(ListAPIView[Match]):
    """Failed attempts at a site."""

    permission_classes = (OverseesSites,)
    serializer_class = SiteFailureOut
    pagination_class = SiteFailurePages

    def get_queryset(self) -> QuerySet[Match]:
        """Return those of the last day: for its administrators all, for managers those of their VOs."""
        user = user_of(self.request)
        site = get_object_or_404(sites_overseen_by(user), name=self.kwargs["site"])
        return failures_at(site, user=user, now=current_time())

    @extend_schema(
        operation_id="sites_failures",
        summary="List the attempts that failed at a site within a day: host, times, phase and exit code",
        tags=[Audience.MANAGERS],
        responses={200: SiteFailureOut(many=True), **error_responses(400, 401, 403, 404)},
    )
    def get(self, request: Request, site: str) -> Response:  # noqa: ARG002 - get_queryset reads it
        """Return one page of failed attempts."""
        return self.list(request)
