"""The form above the list of leases."""

from datetime import datetime

from django import forms
from django.core.exceptions import ValidationError

from matching.filters import LeaseFilterSet
from wms.kernel.clock import current_time
from wms.kernel.filters import ZonedTimeFilter
from wms.portal.search import time_in


class SearchTimeField(forms.Field):
    """A time as in the search box: a date or time (of UTC, if it names no zone), or a duration before now."""

    def to_python(self, value: object) -> datetime | None:
        """Return the time, in UTC; None: none is given."""
        text = str(value or "").strip()
        try:
            return datetime.fromisoformat(time_in(text, current_time())) if text else None
        except ValueError as error:
            raise ValidationError(str(error)) from error


class SearchTimeFilter(ZonedTimeFilter):
    """Rows before or after a time that is given as in the search box."""

    field_class = SearchTimeField


class LeasePageFilterSet(LeaseFilterSet):
    """Filters of the page of leases; an invalid one counts as not given, and the page says what is wrong."""

    since = SearchTimeFilter(
        method="of_period",
        label="From (UTC)",
        help_text="2d, 2026-06-01 or 2026-06-01 12:00; empty: a day ago.",
    )
    until = SearchTimeFilter(
        method="of_period", label="To (UTC)", help_text="Likewise; a date means 00:00; empty: now."
    )

    def period(self, *, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return begin and end of the period; an end that is not after the begin is an error."""
        since, until = super().period(now=now)
        if until is not None and since is not None and until <= since:
            self.form.add_error("until", "Write a time after the begin, which is a day ago unless it is given.")
            return since, None
        return since, until
