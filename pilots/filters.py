"""Filters of the list of pilots."""

from django_filters import ChoiceFilter, FilterSet

from pilots.domain.pilot import ENDED, MAY_END, PilotStatus
from pilots.models import Pilot, PilotQuerySet
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
