"""Pages for pilots, to look at, and for the directors that send them."""

from datetime import datetime

from django.contrib import admin, messages
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.html import format_html_join
from django.utils.safestring import SafeString

from pilots.models import Director, Pilot
from pilots.services.reports import revoke
from resources.admin.rights import sites_serving
from taskqueues.domain.conditions import CONDITIONS
from wms.accounts.admin.rights import VOLevelAdmin, VOLevelLedger
from wms.kernel.admin import SeenRelatedFilter


@admin.register(Pilot)
class PilotAdmin(VOLevelLedger[Pilot]):
    """For operators and managers who ask where pilots are, and why they failed."""

    list_display = (
        "id",
        "vo",
        "pilot_type",
        "status",
        "status_reason",
        "place",
        "host_name",
        "last_seen_at",
        "got_nothing_at",
    )
    list_select_related = ("vo", "queue__ce__site")
    list_filter = ("status", ("vo", SeenRelatedFilter))
    search_fields = ("=id", "stamp", "host_name")
    ordering = ("-id",)
    exclude = ("nothing_at", "nothing_left")
    readonly_fields = ("got_nothing_at", "left_by_condition")
    actions = ("revoke",)

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the pilots of the VOs."""
        return Q(vo__in=vos)

    @admin.action(description="Revoke the credentials of selected pilots", permissions=["view"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[Pilot]) -> None:
        """Have the tokens and secrets of the pilots, and the tokens of their leases, open nothing from now on."""
        now = timezone.now()
        pilots = [
            pilot
            for pilot in self.changeable(request, queryset).filter(revoked_at__isnull=True).order_by("pk")
            if revoke(pilot_id=pilot.pk, now=now)
        ]
        for pilot in pilots:
            self.log_change(request, pilot, "Credentials revoked.")
        self.message_user(request, f"Credentials of {len(pilots)} pilots revoked.", messages.SUCCESS)

    @admin.display(description="place")
    def place(self, pilot: Pilot) -> str:
        """Return site / CE / queue."""
        return f"{pilot.queue.ce.site} / {pilot.queue.ce} / {pilot.queue}" if pilot.queue else "–"

    @admin.display(description="got nothing at", ordering="nothing_at", empty_value="–")
    def got_nothing_at(self, pilot: Pilot) -> datetime | None:
        """Return when it last asked for a job and got none."""
        return pilot.nothing_at

    @admin.display(description="task queues left after each condition", empty_value="–")
    def left_by_condition(self, pilot: Pilot) -> SafeString | None:
        """Return, in the order of the match, how many were left when it got nothing: where it falls to 0 is why."""
        if pilot.nothing_left is None:
            return None
        # The database keeps the names in an order of its own; a condition that came later was not counted then.
        counts = [(name, pilot.nothing_left[name]) for name in CONDITIONS if name in pilot.nothing_left]
        return format_html_join("\n", "<div>{}: {}</div>", counts)


@admin.register(Director)
class DirectorAdmin(VOLevelAdmin[Director]):
    """Operators decide which resources are filled with pilots, and how eagerly; managers look."""

    managers_may = frozenset({"view"})
    fixed_after_creation = ("name",)
    list_display = ("name", "kind", "site_names", "job_types", "pilots_per_cycle", "private_fraction")
    search_fields = ("name",)
    ordering = ("name",)
    filter_horizontal = ("sites",)

    def seen(self, vos: frozenset[int]) -> Q:
        """Return those of a site that serves the VOs, and those of all sites."""
        chosen = Director.sites.through.objects.filter(director=OuterRef("pk"))
        return Q(Exists(chosen.filter(site__in=sites_serving(vos))) | ~Exists(chosen))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Director]:
        """Return the directors with their sites."""
        return super().get_queryset(request).prefetch_related("sites")

    @admin.display(description="sites")
    def site_names(self, director: Director) -> str:
        """Return the sites that it fills."""
        return ", ".join(sorted(site.name for site in director.sites.all())) or "all"
