"""Pages for leases, to look at."""

from django.contrib import admin
from django.db.models import Q

from matching.models import Match
from wms.accounts.admin.rights import VOLevelLedger


@admin.register(Match)
class MatchAdmin(VOLevelLedger[Match]):
    """For operators and managers who ask which pilot had which job, and how the lease ended."""

    list_display = ("id", "job", "pilot", "leased_at", "expires_at", "reported_at", "ended_at", "end_reason")
    list_select_related = ("job", "pilot")
    list_filter = ("end_reason",)
    search_fields = ("=job__id", "=pilot__id")
    search_help_text = "Id of a job or of a pilot."
    ordering = ("-leased_at", "pk")

    def managed(self, vos: frozenset[int]) -> Q:
        """Return the leases of the VOs' jobs."""
        return Q(job__vo__in=vos)
