"""Filters of the list of leases."""

from django.db.models import QuerySet
from django_filters import FilterSet, NumberFilter

from matching.models import Match
from wms.kernel.filters import NameFilter, ZonedTimeFilter


class LeaseFilterSet(FilterSet):
    """Filters of leases; names must be complete. The period is applied by the query."""

    host = NameFilter("pilot__host_name", max_length=255, label="Host", help_text="Exact name of the host.")
    site = NameFilter("queue__ce__site__name", max_length=128, label="Site", help_text="Exact name of the site.")
    owner = NameFilter("job__owner__username", max_length=150, label="Owner", help_text="Exact user name.")
    job = NumberFilter("job", label="Job", help_text="Id of the job.")
    pilot = NumberFilter("pilot", label="Pilot", help_text="Id of the pilot.")
    since = ZonedTimeFilter(
        method="of_period",
        label="Since",
        help_text="Leases that were open at this time or later; default: a day ago, of a job or a pilot any.",
    )
    until = ZonedTimeFilter(method="of_period", label="Until", help_text="Leases that began before this time.")

    class Meta:
        model = Match
        fields = ()

    def of_period(self, leases: QuerySet[Match], _name: str, _value: object) -> QuerySet[Match]:
        """Return the leases unchanged: their query has the period."""
        return leases
