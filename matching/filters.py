"""Filters of the list of leases."""

from datetime import datetime, timedelta
from typing import Final

from django.db.models import QuerySet
from django_filters import FilterSet

from matching.models import Match
from wms.jobs.filters import IntegerFilter
from wms.kernel.filters import NameFilter, ZonedTimeFilter

#: Length of the period, up to now, unless its begin, a job or a pilot is given.
_PERIOD: Final = timedelta(days=1)


class LeaseFilterSet(FilterSet):
    """Filters of leases; names must be complete. The period is applied by the query."""

    host = NameFilter("pilot__host_name", max_length=255, label="Host", help_text="Exact name of the host.")
    site = NameFilter("queue__ce__site__name", max_length=128, label="Site", help_text="Exact name of the site.")
    owner = NameFilter("job__owner__username", max_length=150, label="Owner", help_text="Exact user name.")
    job = IntegerFilter("job", label="Job", min_value=0, max_value=2**63 - 1, help_text="Id of the job.")
    pilot = IntegerFilter("pilot", label="Pilot", min_value=0, max_value=2**63 - 1, help_text="Id of the pilot.")
    since = ZonedTimeFilter(
        method="of_period",
        label="Since",
        help_text="Leases that were open at this time or later; default: a day ago, of a job or a pilot any.",
    )
    until = ZonedTimeFilter(method="of_period", label="Until", help_text="Leases that began before this time.")

    class Meta:
        model = Match
        fields = ()

    def period(self, *, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return begin and end of the period; an invalid one counts as not given.

        Returns:
            The begin; None, of a job or a pilot: that of its first lease. The end; None: now.
        """
        self.form.is_valid()
        values = self.form.cleaned_data
        has_few = values.get("job") is not None or values.get("pilot") is not None
        return values.get("since") or (None if has_few else now - _PERIOD), values.get("until")

    def of_period(self, leases: QuerySet[Match], _name: str, _value: object) -> QuerySet[Match]:
        """Return the leases unchanged: their query has the period."""
        return leases
