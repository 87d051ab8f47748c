"""Filters as queries see them."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Protocol, TypeVar

from django.core.validators import EMPTY_VALUES
from django.forms import BaseForm

from wms.jobs.models import OwnedQuerySet

Rows = TypeVar("Rows", bound=OwnedQuerySet[Any])


class JobFilters(Protocol):
    """Filters of jobs (``wms.jobs.filters``)."""

    @property
    def form(self) -> BaseForm:
        """The form with the values."""

    @property
    def filters(self) -> Mapping[str, Any]:
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


def field_of(each: Any) -> str:  # noqa: ANN401 - a filter of django-filter, which has no types
    """Return the field of a job that a filter compares, or whose related row it compares."""
    return str(each.field_name).partition("__")[0]
