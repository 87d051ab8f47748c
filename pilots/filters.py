"""Filters of the lists of pilots, of computing elements with their health, and of black holes."""

from django_filters import ChoiceFilter, FilterSet

from pilots.domain.pilot import ENDED, MAY_END, PilotStatus
from pilots.models import BlackHoleQuerySet, Pilot, PilotQuerySet
from wms.kernel.clock import current_time
from wms.kernel.filters import NameFilter


class PilotFilterSet(FilterSet):
    """Filters of pilots; names must be complete."""

    status = ChoiceFilter(
        label="Status",
        choices=[(status, status) for status in PilotStatus],
        empty_label="any",
        method="of_status",
        help_text="One status.",
    )
    site = NameFilter("queue__ce__site__name", max_length=128, label="Site", help_text="Exact name of the site.")
    ce = NameFilter("queue__ce__name", max_length=128, label="CE", help_text="Exact name of the CE.")
    queue = NameFilter("queue__name", max_length=128, label="Queue", help_text="Exact name of the queue.")
    # Uses index: pilot_latest_on_host
    host = NameFilter("host_name", max_length=255, label="Host", help_text="Exact name of the host.")
    stamp = NameFilter(
        max_length=128, label="Stamp", help_text="Stamp: the name in the batch system without its prefix wms-."
    )

    class Meta:
        model = Pilot
        fields = ()

    def of_status(self, pilots: PilotQuerySet, _: str, status: str) -> PilotQuerySet:
        """Return the pilots in this status."""
        pilots = pilots.filter(status=status)
        # Also the end: the index of living pilots is small, and most pilots have ended.
        return pilots if status in MAY_END - ENDED else pilots.filter(ended_at__isnull=status not in ENDED)


class CEHealthFilterSet(FilterSet):
    """Filters of computing elements; names must be complete."""

    site = NameFilter("site__name", max_length=128, help_text="Exact name of the site.")
    ce = NameFilter("name", max_length=128, help_text="Exact name of the computing element.")


class BlackHoleFilterSet(FilterSet):
    """Filters of black holes; names must be complete."""

    site = NameFilter("site__name", max_length=128, help_text="Exact name of the site.")
    host = NameFilter("host_name", max_length=255, help_text="Exact name of the host.")
    in_force = ChoiceFilter(
        choices=[("true", "true"), ("false", "false")],
        method="now_in_force",
        help_text="true: hosts that get no jobs now; false: those that get jobs again.",
    )

    def now_in_force(self, black_holes: BlackHoleQuerySet, _: str, value: str) -> BlackHoleQuerySet:
        """Return those in force, or the others."""
        in_force = black_holes.in_force(now=current_time())
        return in_force if value == "true" else black_holes.exclude(pk__in=in_force.values("pk"))
