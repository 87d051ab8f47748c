"""Reads of the accounting: sums of buckets by time and by site, user, group or job type; no job is read (ADR 64)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from types import MappingProxyType
from typing import Final

from django.db.models import F, Model, QuerySet, Sum, Value
from django.db.models.functions import Coalesce

from resources.models import Site
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Grouping, Span
from wms.jobs.models import Accounting, JobBucket, JobBucketPeriod, JobBucketSum
from wms.jobs.sql.accounting import PartRow, largest_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Sums over the jobs of one bucket; levels are summed over its samples."""

    started: int
    done: int
    failed: int
    killed: int
    cpu_s: float
    wall_s: float
    running: float
    waiting: float
    waiting_unmatched: float
    waiting_for_data: float
    waiting_for_room: float
    held: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSums:
    """Sums over time of the jobs with one value of the property."""

    #: Empty: no value, as jobs that wait have no site.
    name: str
    #: Whether these are the jobs of all values that have no sums of their own.
    is_rest: bool
    #: By the begin of the bucket; a bucket in which nothing happened is left out.
    sums: Mapping[datetime, Sums]


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounted:
    """Sums over a span, the value with the largest part first."""

    by_value: Sequence[ValueSums]
    #: Number of samples of levels, by the begin of the bucket.
    samples: Mapping[datetime, int]


_SUMS: Final = tuple(field.name for field in fields(Sums))
_COUNTS: Final = frozenset({"started", "done", "failed", "killed"})
_RANKED_BY: Final = ("wall_s", "running", "waiting", "started", "failed")
#: {property: (column, what stands for none)}. Jobs without a type have the empty one.
_COLUMNS: Final[Mapping[Grouping, tuple[str, int | str]]] = MappingProxyType(
    {
        Grouping.SITE: ("site_id", 0),
        Grouping.USER: ("owner_id", 0),
        Grouping.GROUP: ("group_id", 0),
        Grouping.JOB_TYPE: ("job_type", ""),
    }
)


def state() -> Accounting | None:
    """Return the state of the accounting; None: it has not begun."""
    return Accounting.objects.first()


def runs() -> int:
    """Return the number of runs of the accounting; no bucket changes without it."""
    return Accounting.objects.values_list("runs", flat=True).first() or 0


def accounted(
    span: Span, *, by: User, grouping: Grouping, group: Group | None, site: Site | None, most: int
) -> Accounted:
    """Return what jobs visible to *by* did in a span.

    Args:
        span: the buckets.
        by: the caller.
        grouping: the property by which jobs are told apart.
        group: of the jobs; None: any.
        site: of the jobs; None: any.
        most: number of values with sums of their own.
    """
    within = _within(span)
    cells = _cells(within, by=by, grouping=grouping, narrowed={"group": group, "site": site})
    rows = largest_parts(cells, _SUMS, ranked_by=_RANKED_BY, most=most)
    # Uses index: jobs_jobbucketperiod_pkey
    samples = JobBucketPeriod.objects.filter(**within).values_list("begun_at", "samples")
    return Accounted(by_value=_sums_by_value(rows, grouping=grouping, most=most), samples=dict(samples))


def _within(span: Span) -> Mapping[str, object]:
    return {"width_s": span.width, "begun_at__gte": span.first, "begun_at__lte": span.last}


def _cells(
    within: Mapping[str, object], *, by: User, grouping: Grouping, narrowed: Mapping[str, Group | Site | None]
) -> QuerySet[Model, object]:
    """Return begin, key and sums of buckets: one row for each begin and key."""
    # Uses index: job_bucket_is_one_row
    buckets = JobBucket.objects.visible_to(by).filter(**within)
    chosen = {name: value for name, value in narrowed.items() if value is not None}
    if chosen:
        return _of_buckets(buckets.filter(**chosen), grouping)
    if not by.is_operator:
        return _of_buckets(buckets, grouping)
    # Uses index: job_bucket_sum_is_one_row
    sums = JobBucketSum.objects.filter(**within, grouping=grouping)
    return sums.order_by().values_list("begun_at", "job_type" if grouping is Grouping.JOB_TYPE else "key", *_SUMS)


def _of_buckets(buckets: QuerySet[JobBucket], grouping: Grouping) -> QuerySet[Model, object]:
    column, none = _COLUMNS[grouping]
    return (
        buckets.order_by()
        .annotate(key=Coalesce(F(column), Value(none)))
        .values("begun_at", "key")
        .annotate(**{f"total_{name}": Sum(name) for name in _SUMS})
        .values_list("begun_at", "key", *(f"total_{name}" for name in _SUMS))
    )


def _sums_by_value(rows: Sequence[PartRow], *, grouping: Grouping, most: int) -> list[ValueSums]:
    by_place: dict[int, dict[datetime, Sums]] = {}
    key_of: dict[int, int | str | None] = {}
    for begun_at, place, key, *sums in rows:
        key_of[place] = key
        by_place.setdefault(place, {})[begun_at] = _sums(sums)
    names = _names([key for key in key_of.values() if key], grouping=grouping)
    return [
        # The name of what was removed is not known any more.
        ValueSums(name=names.get(key, f"{grouping} {key}") if key else "", is_rest=place > most, sums=by_place[place])
        for place, key in key_of.items()
    ]


def _sums(values: Sequence[float]) -> Sums:
    named = zip(_SUMS, values, strict=True)
    return Sums(**{name: int(value) if name in _COUNTS else float(value) for name, value in named})  # type: ignore[arg-type]  # by name


def _names(keys: Sequence[int | str], *, grouping: Grouping) -> Mapping[int | str, str]:
    if grouping is Grouping.JOB_TYPE:
        return {key: str(key) for key in keys}
    if grouping is Grouping.USER:
        return dict(User.objects.filter(pk__in=keys).values_list("pk", "username"))
    rows = Site.objects if grouping is Grouping.SITE else Group.objects
    return dict(rows.filter(pk__in=keys).values_list("pk", "name"))
