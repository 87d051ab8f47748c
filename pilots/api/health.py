"""Health of computing elements, and black holes, over REST: list them, end a back-off, lift a black hole."""

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from pilots.filters import BlackHoleFilterSet, CEHealthFilterSet
from pilots.models import BlackHole, CEHealth
from pilots.services import ce_cycle, exclusions
from pilots.tasks import serve_ce
from resources.api.permissions import OverseesSites
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Site
from resources.queries.rights import require_may_change, sites_overseen_by
from wms.accounts.api.permissions import user_of
from wms.accounts.domain import TokenScope
from wms.accounts.models import User
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.rest import CursorPages, ExplainedIn, error_responses
from wms.kernel.rest.audience import Audience

# ---- Health of computing elements ------------------------------------------------------------------------------------


class CEHealthOut(serializers.Serializer[ComputingElement]):
    """One computing element with its health, whose fields are null before its first round."""

    site = serializers.CharField(source="site.name", help_text="Site.")
    ce = serializers.CharField(source="name", help_text="Name of the computing element.")
    type = serializers.CharField(help_text="Type of the computing element.")
    state = serializers.SerializerMethodField(help_text="State now, of the computing element by itself.")
    trouble = serializers.CharField(
        source="health.trouble", allow_null=True, help_text="Why it has no rounds, or gets no pilots; empty: nothing."
    )
    stalls = serializers.CharField(
        source="health.stalls",
        allow_null=True,
        help_text="One line for each of its queues that gets no pilots now, because some did not start there in time.",
    )
    shortfalls = serializers.CharField(
        source="health.shortfalls", allow_null=True, help_text="Slots of its queues that it does not provide."
    )
    failures = serializers.IntegerField(
        source="health.failures", allow_null=True, help_text="Consecutive failed rounds."
    )
    free_slots = serializers.IntegerField(
        source="health.free_slots", allow_null=True, help_text="Pilots that it could take at its last answer."
    )
    asked_at = serializers.DateTimeField(
        source="health.asked_at", allow_null=True, help_text="Time of its last answer."
    )
    ask_after = serializers.DateTimeField(
        source="health.ask_after", allow_null=True, help_text="Until then it has no rounds; null: no back-off."
    )
    send_after = serializers.DateTimeField(
        source="health.send_after", allow_null=True, help_text="Until then no pilots are sent; null: no back-off."
    )

    @extend_schema_field(serializers.ChoiceField(choices=[str(state) for state in ResourceState]))
    def get_state(self, ce: ComputingElement) -> str:
        """Return the state in force."""
        return ce.state_at(current_time())


class CEHealthPages(CursorPages):
    """Computing elements by name."""

    orderings = ("name", "-name")


class CEHealthListView(ListAPIView[ComputingElement]):
    """Computing elements of the sites that serve a VO which the caller manages, and of administered ones."""

    permission_classes = (OverseesSites,)
    serializer_class = CEHealthOut
    pagination_class = CEHealthPages
    filterset_class = CEHealthFilterSet

    def get_queryset(self) -> QuerySet[ComputingElement]:
        """Return the computing elements."""
        sites = sites_overseen_by(user_of(self.request))
        return ComputingElement.objects.filter(site__in=sites).select_related("site", "health")

    @extend_schema(
        operation_id="ces_list",
        summary="List computing elements with their health: of managed VOs and administered sites; operators: all",
        tags=[Audience.MANAGERS],
        responses={200: CEHealthOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of computing elements."""
        return self.list(request)


class AskAgainView(APIView):
    """The end of a computing element's back-off."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="ces_ask_again",
        summary="End the back-off of a computing element, and contact it now",
        tags=[Audience.MANAGERS],
        request=ExplainedIn,
        responses={200: CEHealthOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def post(self, request: Request, site: str, ce: str) -> Response:
        """End the back-off; the number of failures stays until the computing element answers.

        Administrators of the site may do this, managers at sites that serve only their VOs, and operators everywhere.
        """
        values, user = ExplainedIn.checked(request.data), user_of(request)
        row = get_object_or_404(Site.objects.visible_to(user), name=site)
        of_site = get_object_or_404(ComputingElement.objects.select_related("site"), site=row, name=ce)
        require_may_change(row, user)
        with transaction.atomic(durable=True):
            ce_cycle.ask_again(CEHealth.objects.filter(ce=of_site), now=current_time(), reason=values["reason"])
            send_after_commit(serve_ce, ce_id=of_site.pk)
            answer = CEHealthOut(of_site).data
            transaction.set_rollback(values["dry_run"])
        return Response(answer)


# ---- Black holes -----------------------------------------------------------------------------------------------------


class BlackHoleOut(serializers.Serializer[BlackHole]):
    """One period in which a host gets no jobs."""

    id = serializers.IntegerField(help_text="Id of the black hole.")
    host = serializers.CharField(source="host_name", help_text="Name of the host.")
    site = serializers.CharField(source="site.name", help_text="Site.")
    found_at = serializers.DateTimeField(help_text="Time of its detection.")
    until = serializers.DateTimeField(help_text="End of the period without jobs.")
    fetched = serializers.IntegerField(help_text="Leases that had ended there within the hour.")
    failed = serializers.IntegerField(help_text="Those of them that had ended badly and fast.")
    reason = serializers.CharField(help_text="Why the host is a black hole.")
    in_force = serializers.SerializerMethodField(help_text="Whether the host gets no jobs now.")
    lifted_at = serializers.DateTimeField(allow_null=True, help_text="When it got jobs again; null: not yet.")
    lifted_by = serializers.CharField(help_text="Who lifted it; empty: nobody, or its time was over.")

    def get_in_force(self, black_hole: BlackHole) -> bool:
        """Return whether the host gets no jobs now."""
        return black_hole.is_in_force_at(current_time())


class BlackHolePages(CursorPages):
    """Black holes by id, newest first."""

    orderings = ("-id", "id")


def _black_holes(user: User) -> QuerySet[BlackHole]:
    """Return the black holes that *user* sees."""
    return BlackHole.objects.filter(site__in=sites_overseen_by(user)).select_related("site")


class BlackHoleListView(ListAPIView[BlackHole]):
    """Black holes at the sites that serve a VO which the caller manages, and at administered ones."""

    permission_classes = (OverseesSites,)
    serializer_class = BlackHoleOut
    pagination_class = BlackHolePages
    filterset_class = BlackHoleFilterSet

    def get_queryset(self) -> QuerySet[BlackHole]:
        """Return the black holes."""
        return _black_holes(user_of(self.request))

    @extend_schema(
        operation_id="black_holes_list",
        summary="List hosts that get or got no jobs: at sites of managed VOs and administered sites; operators: all",
        tags=[Audience.MANAGERS],
        responses={200: BlackHoleOut(many=True), **error_responses(400, 401, 403)},
    )
    def get(self, request: Request) -> Response:
        """Return one page of black holes, newest first."""
        return self.list(request)


class LiftView(APIView):
    """The end of a black hole before its time."""

    permission_classes = (OverseesSites,)
    token_scope = TokenScope.ADMINISTER

    @extend_schema(
        operation_id="black_holes_lift",
        summary="Let a host get jobs again; one that was lifted is answered as it is",
        tags=[Audience.MANAGERS],
        request=ExplainedIn,
        responses={200: BlackHoleOut, **error_responses(400, 401, 403, 404, 415, 429)},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Lift the black hole; leases that ended there before no longer count.

        Administrators of the site may do this, managers at sites that serve only their VOs, and operators everywhere.
        """
        values, user, now = ExplainedIn.checked(request.data), user_of(request), current_time()
        black_hole = get_object_or_404(_black_holes(user), pk=pk)
        require_may_change(black_hole.site, user)
        with transaction.atomic(durable=True):
            exclusions.lift(BlackHole.objects.filter(pk=pk), by=str(user), now=now, reason=values["reason"])
            answer = BlackHoleOut(_black_holes(user).get(pk=pk)).data
            transaction.set_rollback(values["dry_run"])
        return Response(answer)
