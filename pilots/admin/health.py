"""Admin pages of the health of computing elements, and of black holes."""

from datetime import datetime
from types import MappingProxyType

from django.contrib import admin
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest

from pilots.models import BlackHole, CEHealth
from pilots.queries import ces_left_to_site
from pilots.services import ce_cycle, exclusions
from pilots.tasks import serve_ce
from resources.queries.rights import sites_serving, sites_serving_only
from wms.accounts.admin.rights import VOLevelLedger
from wms.kernel.admin.actions import ReasonedActionForm, reason_in, say
from wms.kernel.admin.rights import SeenRelatedFilter
from wms.kernel.after_commit import send_after_commit
from wms.kernel.clock import current_time
from wms.kernel.names import counted


@admin.register(CEHealth)
class CEHealthAdmin(VOLevelLedger[CEHealth]):
    """Health of computing elements: why one gets no pilots; for operators and managers."""

    list_display = (
        "ce",
        "site",
        "trouble",
        "stalls",
        "shortfalls",
        "failures",
        "free_slots",
        "last_answer",
        "ask_after",
        "send_after",
    )
    list_select_related = ("ce__site",)
    list_filter = (
        ("ce__site", SeenRelatedFilter),
        ("trouble", admin.EmptyFieldListFilter),
        ("stalls", admin.EmptyFieldListFilter),
        ("shortfalls", admin.EmptyFieldListFilter),
    )
    search_fields = ("ce__name", "ce__site__name")
    ordering = ("ce__site__name", "ce__name")
    actions = ("ask_again",)
    action_form = ReasonedActionForm
    row_actions = MappingProxyType({"ask_again": "Contact again now"})

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the CEs of sites that serve the VOs."""
        return Q(ce__site__in=sites_serving(vos))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the CEs of sites that serve the VOs and no other."""
        return Q(ce__site__in=sites_serving_only(vos))

    def get_queryset(self, request: HttpRequest) -> QuerySet[CEHealth]:
        """Return the rows with whether the site starts the pilots of the CE."""
        left_to_site = ces_left_to_site().filter(pk=OuterRef("ce"))
        return super().get_queryset(request).annotate(is_left_to_site=Exists(left_to_site))

    @admin.display(description="last answer", ordering="asked_at")
    def last_answer(self, health: CEHealth) -> str | datetime | None:
        """Return when the CE answered last, or why it is not queried."""
        return "not queried: the site starts the pilots" if vars(health)["is_left_to_site"] else health.asked_at

    @admin.display(description="site", ordering="ce__site__name")
    def site(self, health: CEHealth) -> str:
        """Return the site of the CE."""
        return health.ce.site.name

    @admin.action(description="Contact selected computing elements again now")
    def ask_again(self, request: HttpRequest, queryset: QuerySet[CEHealth]) -> None:
        """End the back-off of the computing elements."""
        rows = self.changeable(request, queryset)
        ce_ids = ce_cycle.ask_again(rows, now=current_time(), reason=reason_in(request))
        for ce_id in ce_ids:
            send_after_commit(serve_ce, ce_id=ce_id)
        self.message_user(request, f"{counted(len(ce_ids), 'computing element')} contacted again now.")


@admin.register(BlackHole)
class BlackHoleAdmin(VOLevelLedger[BlackHole]):
    """Hosts that get no jobs, which operators and managers may lift after a repair."""

    list_display = (
        "host_name",
        "site",
        "found_at",
        "until",
        "fetched",
        "failed",
        "is_in_force",
        "lifted_at",
        "lifted_by",
    )
    list_select_related = ("site",)
    list_filter = (("site", SeenRelatedFilter), ("lifted_at", admin.EmptyFieldListFilter))
    search_fields = ("host_name", "site__name")
    ordering = ("-found_at", "-pk")
    actions = ("lift",)
    action_form = ReasonedActionForm
    row_actions = MappingProxyType({"lift": "Let it get jobs again"})

    def seen(self, vos: frozenset[int]) -> Q:
        """Return the hosts of sites that serve the VOs."""
        return Q(site__in=sites_serving(vos))

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the hosts of sites that serve the VOs and no other."""
        return Q(site__in=sites_serving_only(vos))

    def offers(self, action: str, row: BlackHole) -> bool:  # noqa: ARG002 - there is one action
        """Return whether the host was not let get jobs again."""
        return row.lifted_at is None

    @admin.display(description="gets no jobs", boolean=True)
    def is_in_force(self, black_hole: BlackHole) -> bool:
        """Return whether the host gets no jobs now."""
        return black_hole.is_in_force_at(current_time())

    @admin.action(description="Let selected hosts get jobs again")
    def lift(self, request: HttpRequest, queryset: QuerySet[BlackHole]) -> None:
        """Lift the black holes; leases that ended there before count no more."""
        rows, by = self.changeable(request, queryset), str(request.user)
        chosen = rows.count()  # before: the list may be filtered by what changes
        lifted = exclusions.lift(rows, by=by, now=current_time(), reason=reason_in(request))
        say(self, request, done=lifted, of=chosen, thing="black hole", verb="lifted")
