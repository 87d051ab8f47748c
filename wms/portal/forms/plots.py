"""The form above the plots."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from django import forms
from django.conf import settings

from resources.models import Site
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Grouping, Span, Width


class Period(StrEnum):
    """A time up to now that the page offers."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"


#: {period: (length of its buckets, number of them before the present one)}.
_BUCKETS: Final[Mapping[Period, tuple[Width, int]]] = MappingProxyType(
    {
        Period.DAY: (Width.HOUR, 24),
        Period.WEEK: (Width.HOUR, 7 * 24),
        Period.MONTH: (Width.DAY, 30),
        Period.YEAR: (Width.WEEK, 52),
    }
)
#: Days up to which a span between two dates has an hour, or a day, as its bucket: no plot has more than some 200.
_MOST_DAYS_OF_HOURS: Final = 8
_MOST_DAYS_OF_DAYS: Final = 200
_GROUPINGS: Final = (
    (Grouping.SITE, "site"), (Grouping.USER, "user"), (Grouping.GROUP, "group"), (Grouping.JOB_TYPE, "job type")
)  # fmt: skip
_PERIODS: Final = (
    (Period.DAY, "last day"), (Period.WEEK, "last week"), (Period.MONTH, "last month"), (Period.YEAR, "last year")
)  # fmt: skip


class DateInput(forms.DateInput):
    """An input in which the browser offers a calendar."""

    input_type = "date"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The choices of the reader."""

    grouping: Grouping
    span: Span
    group: Group | None
    site: Site | None


class PlotForm(forms.Form):
    """Choices of the page of plots; a wrong or empty one counts as not made, and the page says what is wrong."""

    by = forms.ChoiceField(label="By", choices=_GROUPINGS, required=False)
    period = forms.ChoiceField(label="Time", choices=_PERIODS, required=False)
    since = forms.DateField(label="or from", widget=DateInput, required=False)
    until = forms.DateField(label="to", widget=DateInput, required=False)
    group = forms.ModelChoiceField(
        Group.objects.none(), label="Group", to_field_name="name", empty_label="all", required=False
    )
    site = forms.ModelChoiceField(
        Site.objects.none(), label="Site", to_field_name="name", empty_label="all", required=False
    )

    def __init__(self, data: Mapping[str, object], *, user: User) -> None:
        super().__init__(data)
        choices = {"group": Group.objects.visible_to(user), "site": Site.objects.visible_to(user)}
        for name, rows in choices.items():
            field = self.fields[name]
            if isinstance(field, forms.ModelChoiceField):
                field.queryset = rows.order_by("name")

    def clean(self) -> dict[str, object]:
        """Return the values; a span that ends before it begins is none."""
        values = super().clean() or {}
        if values.get("since") and values.get("until") and values["until"] < values["since"]:
            self.add_error("until", "The last day is before the first.")
        return values

    def choice(self, *, now: datetime) -> Choice:
        """Return what to show."""
        self.is_valid()
        values = self.cleaned_data
        since, until = values.get("since"), values.get("until")
        span = (
            _between(since, until, now=now)
            if since or until
            else _up_to(now, Period(values.get("period") or Period.DAY))
        )
        return Choice(
            grouping=Grouping(values.get("by") or Grouping.SITE),
            span=span,
            group=values.get("group"),
            site=values.get("site"),
        )


def _up_to(now: datetime, period: Period) -> Span:
    width, number = _BUCKETS[period]
    last = width.begin_of(now)
    return Span(width=width, first=last - number * width.length, last=last)


def _between(since: date | None, until: date | None, *, now: datetime) -> Span:
    """Return the span of whole days, as far as buckets are kept; a day that is not given: the first, or today."""
    oldest = now - timedelta(seconds=settings.WMS_ACCOUNTING_DAYS_S)
    begin = max(datetime.combine(since, time(), UTC) if since else oldest, oldest)
    end = min(datetime.combine(until, time.max, UTC) if until else now, now)
    begin, days = min(begin, end), (end - begin).days + 1
    hours_are_kept = begin >= now - timedelta(seconds=settings.WMS_ACCOUNTING_HOURS_S)
    if days <= _MOST_DAYS_OF_HOURS and hours_are_kept:
        width = Width.HOUR
    else:
        width = Width.DAY if days <= _MOST_DAYS_OF_DAYS else Width.WEEK
    return Span(width=width, first=width.begin_of(begin), last=width.begin_of(end))
