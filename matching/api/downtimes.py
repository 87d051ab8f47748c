"""Downtimes over REST: list, declare, change, end, and import from GOCDB."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from matching.queries.closing import running_at, waiting_only_at
from resources.api.permissions import OverseesSites
from resources.domain.gocdb import MAX_BYTES, parse
from resources.filters import DowntimeFilterSet
from resources.models import Downtime, Site
from resources.queries.places import level_at
from resources.queries.rights import require_may_change
from resources.services.downtimes import change, declare, end, import_announced
from resources.services.states import MAX_REASON_LENGTH
from wms.accounts.api.permissions import IsOperator, IsUser, user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.kernel.clock import current_time
from wms.kernel.rest import (
    PAGE_PARAMETERS,
    ChangeIn,
    CursorPages,
    Name,
    ReasonText,
    Text,
    ZonedTime,
    checked_filters,
    error_responses,
)
from wms.kernel.rest.audience import Audience


class DowntimeTimesIn(ChangeIn):
    """Times and reason of a downtime."""

    begins_at = ZonedTime(help_text="Begin, in RFC 3339 with a zone; before it only jobs that end by then start there.")
    ends_at = ZonedTime(help_text="End, in RFC 3339 with a zone.")
    reason = ReasonText(max_length=MAX_REASON_LENGTH, help_text="Reason, which users see.")


class DowntimeIn(DowntimeTimesIn):
    """A new downtime."""

    site = Name(max_length=128, help_text="Its site.")
    ce = Name(max_length=128, default="", allow_blank=True, help_text="Computing element; left out: the whole site.")
    queue = Name(max_length=128, default="", allow_blank=True, help_text="Queue; left out: the whole element or site.")


class DowntimeOut(serializers.Serializer[Any]):
    """One downtime."""

    id = serializers.IntegerField(
        allow_null=True, help_text="Id of the downtime; null: it was to be declared in a dry run, and there is none."
    )
    site = serializers.CharField(source="site.name", help_text="Its site.")
    ce = serializers.CharField(
        source="ce.name", default=None, allow_null=True, help_text="Computing element; null: the whole site."
    )
    queue = serializers.CharField(
        source="queue.name", default=None, allow_null=True, help_text="Queue; null: the whole element or site."
    )
    begins_at = serializers.DateTimeField(help_text="Its begin.")
    ends_at = serializers.DateTimeField(help_text="Its end.")
    reason = serializers.CharField(help_text="Its reason.")
    source = serializers.CharField(  # type: ignore[assignment]  # a field of the framework has an attribute so called
        help_text="gocdb: announced there; empty: declared here."
    )


class DeclaredDowntimeOut(DowntimeOut):
    """A downtime with the jobs that it concerns now."""

    running_jobs = serializers.SerializerMethodField(help_text="Jobs that run at its place; it stops none of them.")
    waiting_jobs = serializers.SerializerMethodField(help_text="Waiting jobs that can run nowhere else.")

    def get_running_jobs(self, downtime: Downtime) -> int:
        """Return the number of jobs that run."""
        return running_at(downtime.level)

    def get_waiting_jobs(self, downtime: Downtime) -> int:
        """Return the number of jobs that wait."""
        return waiting_only_at(downtime.level)


class ImportIn(ChangeIn):
    """A document of downtimes."""

    xml = Text(max_length=MAX_BYTES, help_text="Answer of GOCDB's method get_downtime, at most 5 MB.")


class ImportOut(serializers.Serializer[Any]):
    """The numbers of downtimes that an import changed, or left out."""

    added = serializers.IntegerField(help_text="Downtimes that are new.")
    changed = serializers.IntegerField(help_text="Downtimes whose announcement has changed.")
    removed = serializers.IntegerField(help_text="Downtimes announced no longer that had not begun.")
    unchanged = serializers.IntegerField(help_text="Downtimes that stay as they are.")
    ended = serializers.IntegerField(help_text="Announcements of the past, which are left out.")
    warnings = serializers.IntegerField(help_text="Announcements without an outage, which close nothing.")
    other_services = serializers.IntegerField(help_text="Announcements for services that run no jobs.")
    other_sites = serializers.IntegerField(help_text="Announcements for sites that are not configured here.")
    unplaced = serializers.ListField(
        child=serializers.CharField(), help_text="Hosts of services for jobs that are no computing element here."
    )
    unreadable = serializers.ListField(
        child=serializers.CharField(), help_text="Announcements that could not be read, the first 20, and why."
    )


class DowntimePages(CursorPages):
    """Downtimes by their begin."""

    orderings = ("begins_at", "-begins_at")


def _seen_by(user: User) -> QuerySet[Downtime]:
    sites = Site.objects.visible_to(user)
    return Downtime.objects.filter(site__in=sites).select_related("site", "ce__site", "queue__ce__site")


@extend_schema_view(
    get=extend_schema(
        operation_id="downtimes_list",
        summary="List the downtimes of sites of the caller's VOs that have not ended",
        tags=[Audience.USERS],
        responses={200: DowntimeOut(many=True), **error_responses(400, 401, 403)},
    )
)
class DowntimeListView(ListAPIView[Downtime]):
    """Downtimes."""

    serializer_class = DowntimeOut
    pagination_class = DowntimePages
    filterset_class = DowntimeFilterSet
    token_scope = TokenScope.ADMINISTER

    def get_permissions(self) -> list[Any]:
        """Let all users list downtimes, and those who oversee sites declare them."""
        return [IsUser() if self.request.method == "GET" else OverseesSites()]

    def get_queryset(self) -> QuerySet[Downtime]:
        """Return the downtimes of the sites that the caller may see."""
        filters = checked_filters(
            DowntimeFilterSet, self.request.query_params, Downtime.objects.none(), also=PAGE_PARAMETERS
        )
        seen = _seen_by(user_of(self.request))
        return seen if filters.form.cleaned_data["since"] else seen.filter(ends_at__gt=current_time())

    @extend_schema(
        operation_id="downtimes_declare",
        summary="Declare a downtime; one that is there already is answered as it is",
        tags=[Audience.MANAGERS],
        request=DowntimeIn,
        responses={200: DeclaredDowntimeOut, 201: DeclaredDowntimeOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Declare a downtime, by the rights on the state of the site.

        A dry run answers 200, with null for the id.
        """
        values, user = DowntimeIn.checked(request.data), user_of(request)
        site = get_object_or_404(Site.objects.visible_to(user), name=values["site"])
        level = level_at(site, ce=values["ce"], queue=values["queue"])
        require_may_change(site, user)
        with transaction.atomic(durable=True):
            downtime, is_new = declare(level, **_times_in(values), by=user, now=current_time())
            answer = DeclaredDowntimeOut(downtime).data
            transaction.set_rollback(values["dry_run"])
        if values["dry_run"] and is_new:
            return Response({**answer, "id": None})
        return Response(answer, status=HTTPStatus.CREATED if is_new else HTTPStatus.OK)


class DowntimeView(APIView):
    """One downtime."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="downtimes_get",
        summary="Show a downtime with the jobs that it concerns",
        tags=[Audience.MANAGERS],
        responses={200: DeclaredDowntimeOut, **error_responses(401, 403, 404)},
    )
    def get(self, request: Request, pk: int) -> Response:
        """Return the downtime of a site that the caller may change."""
        downtime = _managed(pk, user_of(request))
        return Response(DeclaredDowntimeOut(downtime).data)

    @extend_schema(
        operation_id="downtimes_change",
        summary="Change times and reason of a downtime; its place stays",
        tags=[Audience.MANAGERS],
        request=DowntimeTimesIn,
        responses={200: DeclaredDowntimeOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def put(self, request: Request, pk: int) -> Response:
        """Change the downtime; one that is announced in GOCDB is changed there."""
        values, user = DowntimeTimesIn.checked(request.data), user_of(request)
        downtime = _managed(pk, user)
        with transaction.atomic(durable=True):
            change(downtime, **_times_in(values), by=user, now=current_time())
            transaction.set_rollback(values["dry_run"])
        return Response(DeclaredDowntimeOut(downtime).data)

    @extend_schema(
        operation_id="downtimes_end",
        summary="End a downtime: one that runs ends now, one that has not begun is removed",
        tags=[Audience.MANAGERS],
        responses={204: None, **error_responses(400, 401, 403, 404, 429)},
    )
    def delete(self, request: Request, pk: int) -> Response:
        """End the downtime; one that is announced in GOCDB, and has not begun, is withdrawn there."""
        user = user_of(request)
        downtime = _managed(pk, user)
        with transaction.atomic(durable=True):
            end(downtime, by=user, now=current_time())
        return Response(status=HTTPStatus.NO_CONTENT)


def _times_in(values: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: values[name] for name in ("begins_at", "ends_at", "reason")}


def _managed(pk: int, user: User) -> Downtime:
    downtime = get_object_or_404(_seen_by(user), pk=pk)
    require_may_change(downtime.site, user)
    return downtime


class DowntimeImportView(APIView):
    """The import of downtimes from GOCDB."""

    permission_classes = (IsOperator,)
    token_scope = TokenScope.ADMINISTER
    # Each character of the document may be escaped.
    most_body_bytes = 2 * MAX_BYTES

    @extend_schema(
        operation_id="downtimes_import",
        summary="Import the outages that GOCDB announces for computing elements",
        tags=[Audience.MANAGERS],
        request=ImportIn,
        responses={200: ImportOut, **error_responses(400, 401, 403, 413, 415, 429)},
    )
    def post(self, request: Request) -> Response:
        """Make the downtimes from GOCDB those of the document; what is declared here is not touched."""
        values, user = ImportIn.checked(request.data), user_of(request)
        announcements = parse(values["xml"])
        with transaction.atomic(durable=True):
            result = import_announced(announcements, by=user, now=current_time())
            transaction.set_rollback(values["dry_run"])
        return Response(ImportOut(result).data)
