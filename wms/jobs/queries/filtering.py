"""Filters as queries see them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol, TypeVar

from django.core.validators import EMPTY_VALUES
from django.db.models import Model
from django.forms import BaseForm

from wms.jobs.models import OwnedQuerySet

Rows = TypeVar("Rows", bound=OwnedQuerySet[Model])


class JobFilter(Protocol):
    """A filter of jobs, of django-filter."""

    field_name: str
    lookup_expr: str


class JobFilters(Protocol):
    """Filters of jobs (``wms.jobs.filters``)."""

    @property
    def form(self) -> BaseForm:
        """The form with the values."""

    @property
    def filters(self) -> Mapping[str, JobFilter]:
        """The filters by name."""

    def always_narrowed(self) -> Collection[str]:
        """Return the fields by which ``filter_queryset`` narrows although no value is given."""

    def filter_queryset(self, queryset: Rows, *, but: Collection[str] = ()) -> Rows:
        """Return the rows that match in all fields which they have, except the fields *but*."""


def narrowing_fields(filters: JobFilters) -> Iterator[str]:
    """Yield the fields of a job by which the filters narrow; an invalid value does not."""
    filters.form.full_clean()
    yield from filters.always_narrowed()
    for name, value in filters.form.cleaned_data.items():
        if value not in EMPTY_VALUES:
            yield field_of(filters.filters[name])


def field_of(each: JobFilter) -> str:
    """Return the field of a job that a filter compares, or whose related row it compares."""
    return each.field_name.partition("__")[0]
