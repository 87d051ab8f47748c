"""Jobs of a short list in the order of a column.

Indexes have jobs in the order of their ids only (ADR 54), and one more would cost every change of a status. Of a short
list all jobs are read by id, as for numbers that no counter has, and sorted.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, Self

from django.core.exceptions import ValidationError
from django.db.models import F, Q
from django.db.models.constants import LOOKUP_SEP
from django.db.models.expressions import OrderBy
from django.utils import timezone

from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.models import Job
from wms.jobs.queries.breakdown import NEWEST, ids_of_newest
from wms.jobs.queries.filtering import JobFilters

#: Jobs of the longest list that is sorted: they are read and sorted in some tens of milliseconds.
MOST_SORTED: Final = NEWEST
#: {name of an order: the column of a job, or of a related row}.
SORTED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "status": "status",
        "name": "job_name",
        "why": "minor_status",
        "application-status": "application_status",
        "owner": "owner__username",
        "group": "group__name",
        "vo": "vo__name",
        "site": "site__name",
        "ce": "queue__ce__name",
        "queue": "queue__name",
        "type": "job_type",
        "label": "job_group",
        "priority": "priority",
        "exit-code": "exit_code",
        "cpu-time": "cpu_s",
        "wall-time": "wall_s",
        "memory-mb": "max_memory_mb",
        "reschedules": "reschedules",
        "started": "started_at",
        "ended": "ended_at",
        "changed": "status_changed_at",
    }
)
#: An id, and with a colon a value; without: the job has none.
_POSITION: Final = re.compile(r"([0-9]{1,18})(?::(.{0,300}))?", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The order of a list by a column, and by id among equal values; jobs without a value are last."""

    #: A name of SORTED_BY.
    by: str
    is_descending: bool

    @property
    def column(self) -> str:
        """The column of a job, or of a related row."""
        return SORTED_BY[self.by]

    def terms(self, *, backwards: bool = False) -> tuple[OrderBy, OrderBy]:
        """Return the terms of ``order_by``."""
        if self.is_descending == backwards:
            return F(self.column).asc(nulls_first=backwards or None, nulls_last=not backwards or None), F("pk").asc()
        return F(self.column).desc(nulls_first=backwards or None, nulls_last=not backwards or None), F("pk").desc()


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The place of a job in an order, which stays the same when the job changes or leaves the list."""

    #: None: the job has no value.
    value: Any
    job_id: int

    @classmethod
    def of(cls, job: Job, order: Order) -> Self:
        """Return the place of *job*."""
        value: object = job
        for name in order.column.split(LOOKUP_SEP):
            value = None if value is None else attrgetter(name)(value)
        return cls(value=value, job_id=job.pk)

    @classmethod
    def parse(cls, text: str, order: Order) -> Self | None:
        """Return the place that *text* names; None: none of this order."""
        found = _POSITION.fullmatch(text)
        if found is None:
            return None
        try:
            value = None if found[2] is None else _field_of(order).to_python(found[2])
        except ValidationError:
            return None
        if isinstance(value, datetime) and timezone.is_naive(value):
            return None
        return cls(value=value, job_id=int(found[1]))

    def __str__(self) -> str:
        if self.value is None:
            return str(self.job_id)
        text = self.value.isoformat() if isinstance(self.value, datetime) else str(self.value)
        return f"{self.job_id}:{text}"

    def beyond(self, order: Order, *, backwards: bool) -> Q:
        """Return the condition of the jobs after this place, or before it."""
        column, comparison = order.column, "gt" if order.is_descending == backwards else "lt"
        has_none, next_id = Q(**{f"{column}__isnull": True}), Q(**{f"pk__{comparison}": self.job_id})
        if self.value is None:
            return has_none & next_id | ~has_none if backwards else has_none & next_id
        further = Q(**{f"{column}__{comparison}": self.value}) | Q(**{column: self.value}) & next_id
        return further if backwards else further | has_none


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedPart:
    """A part of a sorted list."""

    jobs: Sequence[Job]
    has_previous: bool
    has_next: bool


def sorted_part(
    filters: JobFilters,
    order: Order,
    *,
    by: User,
    at_most: int,
    after: Position | None = None,
    before: Position | None = None,
) -> SortedPart:
    """Return a part of a filtered list in an order, as ``queries.listed``; of a longer list the newest MOST_SORTED.

    Args:
        filters: filters of jobs.
        order: the order.
        by: the caller; only jobs visible to it are listed.
        at_most: number of jobs of the part.
        after: the place after which it begins; None: it begins at the first job.
        before: the place before which it ends, instead of *after*.
    """
    backwards, edge = before is not None, before or after
    # Uses index: jobs_job_pkey
    jobs = Job.objects.filter(pk__among=ids_of_newest(filters, by=by, at_most=MOST_SORTED))
    if edge is not None:
        jobs = jobs.filter(edge.beyond(order, backwards=backwards))
    # As a subquery, so that related rows are read for this part only.
    part = jobs.order_by(*order.terms(backwards=backwards)).values("pk")[: at_most + 1]
    found = list(queries.in_list(Job.objects.filter(pk__in=part)).order_by(*order.terms(backwards=backwards)))
    has_more, found = len(found) > at_most, found[:at_most]
    if backwards:
        return SortedPart(jobs=found[::-1], has_previous=has_more, has_next=True)
    return SortedPart(jobs=found, has_previous=edge is not None, has_next=has_more)


def _field_of(order: Order) -> Any:  # noqa: ANN401 - Django's fields have no common type
    model: Any = Job
    *relations, name = order.column.split(LOOKUP_SEP)
    for relation in relations:
        model = model._meta.get_field(relation).related_model
    return model._meta.get_field(name)
