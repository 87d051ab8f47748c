"""Reads of the accounting: sums of buckets by time and by site, user, group or job type; no job is read (ADR 64)."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import Any, Final, Self

from django.db.models import Case, CharField, Count, F, Model, Q, QuerySet, Sum, Value, When
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, TruncMonth

from resources.domain.parameters import canonical, values_of
from resources.models import Site
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Grouping, ReportKey, Span, Width
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


# ---- Reports ---------------------------------------------------------------------------------------------------------

#: Rows of a report that a program gets: one for each of 800 users in each month of a year, some 2 MB.
MOST_ROWS: Final = 10_000
#: Name, in the form in which parameters are compared, of the parameter of sites that is their country.
_COUNTRY: Final = "country"
#: {name by which a report is narrowed: column}.
NARROWED_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "vo": "vo__name",
        "group": "group__name",
        "user": "owner__username",
        "site": "site__name",
        "type": "job_type",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportSums:
    """Starts and ends of jobs, and the time that those that ended have used."""

    started: int = 0
    done: int = 0
    failed: int = 0
    killed: int = 0
    cpu_s: float = 0.0
    #: Wall-clock time times processors.
    wall_s: float = 0.0

    @property
    def success(self) -> float | None:
        """The part of Done in Done and Failed, 0 to 1; None: there are neither."""
        return self.done / (self.done + self.failed) if self.done + self.failed else None

    @property
    def efficiency(self) -> float | None:
        """CPU time by wall-clock time and processors; None: no time was used."""
        return self.cpu_s / self.wall_s if self.wall_s else None

    @property
    def cpu_hours(self) -> float:
        """CPU time in hours."""
        return self.cpu_s / Width.HOUR

    @property
    def core_hours(self) -> float:
        """Wall-clock time times processors, in hours."""
        return self.wall_s / Width.HOUR

    def __add__(self, other: Self) -> "ReportSums":
        """Return the sums of both."""
        return ReportSums(**dict(zip(_REPORTED, map(add, astuple(self), astuple(other)), strict=True)))


_REPORTED: Final = tuple(field.name for field in fields(ReportSums))


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAccount:
    """The jobs at one site in the last hours: of one user, and of all users of some VOs."""

    #: Begin of the first hour.
    since: datetime
    own: ReportSums
    all: ReportSums


def account_of_site(site: Site, *, by: User, vo_ids: Collection[int] | None, now: datetime) -> SiteAccount:
    """Return the account of a site for the last 24 whole hours and the present one.

    Args:
        site: the site.
        by: the user whose jobs are the own ones.
        vo_ids: of the jobs of all users; None: all VOs.
        now: the present.
    """
    since = Width.HOUR.begin_of(now) - timedelta(days=1)
    # Uses index: job_bucket_is_one_row
    hours = JobBucket.objects.filter(site=site, width_s=Width.HOUR, begun_at__gte=since)
    of_whom = {"own": Q(owner=by), "all": Q() if vo_ids is None else Q(vo__in=vo_ids)}
    sums = hours.aggregate(
        **{
            f"{whose}_{name}": Sum(name, filter=condition, default=0)
            for whose, condition in of_whom.items()
            for name in _REPORTED
        }
    )
    own, of_all = (ReportSums(**{name: sums[f"{whose}_{name}"] for name in _REPORTED}) for whose in of_whom)
    return SiteAccount(since=since, own=own, all=of_all)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """The sums of the jobs with the same values of some properties."""

    #: In the order of the properties; None: no value.
    values: Sequence[str | None]
    sums: ReportSums


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingReport:
    """Sums over some days."""

    #: In the order of their values; those without one are last.
    rows: Sequence[ReportRow] = ()
    #: Number of rows that are left out, those with the fewest core hours, and their sums.
    rest_count: int = 0
    rest: ReportSums = ReportSums()

    @property
    def total(self) -> ReportSums:
        """The sums of all rows."""
        return reduce(add, (row.sums for row in self.rows), self.rest)


def days_accounted(since: date | None, until: date | None, *, now: datetime) -> Span | None:
    """Return the days of a period for which there are numbers; None: there is no such day.

    Args:
        since: its first day, in UTC; None: the first day of the year of the last one.
        until: its last day; None: today.
        now: the present.
    """
    today = Width.DAY.begin_of(now)
    last = min(today if until is None else _begin_of(until), today)
    first = last.replace(month=1, day=1) if since is None else _begin_of(since)
    # Uses index: jobs_jobbucketperiod_pkey
    kept = JobBucketPeriod.objects.filter(width_s=Width.DAY).order_by("begun_at").values_list("begun_at", flat=True)
    oldest = kept.first()
    if oldest is None or max(first, oldest) > last:
        return None
    return Span(width=Width.DAY, first=max(first, oldest), last=last)


def _begin_of(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


def report(
    span: Span | None, *, by_user: User, keys: Sequence[ReportKey], narrowed: Mapping[str, str], most: int
) -> AccountingReport:
    """Return what jobs visible to a user did and used, by one or several properties.

    Args:
        span: days; None: no day.
        by_user: the caller.
        keys: the properties.
        narrowed: {vo, group, user, site or type: exact name}; only these jobs.
        most: number of rows; of more, those with the most core hours are returned.
    """
    if span is None:
        return AccountingReport()
    # Uses index: job_bucket_is_one_row
    buckets = JobBucket.objects.visible_to(by_user).filter(
        # Jobs that only waited are in buckets, too.
        Q(started__gt=0) | Q(done__gt=0) | Q(failed__gt=0) | Q(killed__gt=0),
        **_within(span),
        **{NARROWED_BY[name]: value for name, value in narrowed.items()},
    )
    columns = [f"by_{key}" for key in keys]
    sums = {f"total_{name}": Sum(name) for name in _REPORTED}
    grouped = (
        buckets.order_by()
        .annotate(**dict(zip(columns, map(_expression, keys), strict=True)))
        .values(*columns)
        .annotate(**sums)
    )
    ranked = grouped.order_by("-total_wall_s", *columns)
    found = list(ranked.values_list(*columns, *sums)[: most + 1])
    rows = _named_rows(found[:most], keys)
    if len(found) <= most:
        return AccountingReport(rows=rows)
    rest = ranked[most:].aggregate(rest_count=Count("*"), **{name: Sum(f"total_{name}") for name in _REPORTED})
    return AccountingReport(rows=rows, rest_count=rest.pop("rest_count"), rest=ReportSums(**rest))


def _expression(key: ReportKey) -> Combinable:
    if key is ReportKey.MONTH:
        return TruncMonth("begun_at", tzinfo=UTC)
    if key is ReportKey.COUNTRY:
        by_country = [When(site__in=sites, then=Value(name)) for name, sites in _sites_by_country().items()]
        return Case(*by_country, default=Value(""), output_field=CharField())
    column, none = _COLUMNS[Grouping(key)]
    return Coalesce(F(column), Value(none))


def _sites_by_country() -> Mapping[str, Sequence[int]]:
    sites = defaultdict(list)
    for site, parameters in Site.objects.order_by("pk").values_list("pk", "parameters"):
        value = canonical(parameters).get(_COUNTRY) if isinstance(parameters, Mapping) else None
        if value is not None:
            sites[", ".join(map(str, values_of(value)))].append(site)
    return sites


def _named_rows(found: Sequence[Sequence[Any]], keys: Sequence[ReportKey]) -> list[ReportRow]:
    values = [_named(column, key) for column, key in zip(zip(*found, strict=True), keys, strict=False)]
    rows = [
        ReportRow(values=of_row, sums=ReportSums(**dict(zip(_REPORTED, row[len(keys) :], strict=True))))
        for of_row, row in zip(zip(*values, strict=True), found, strict=True)
    ]
    return sorted(rows, key=lambda row: [(value is None, value or "") for value in row.values])


def _named(column: Sequence[Any], key: ReportKey) -> list[str | None]:
    """Return the values of a column as people name them."""
    if key is ReportKey.MONTH:
        return [f"{month:%Y-%m}" for month in column]
    if key is ReportKey.COUNTRY:
        return [str(country) or None for country in column]
    names = _names([value for value in set(column) if value], grouping=Grouping(key))
    # The name of what was removed is not known any more.
    return [names.get(value, f"{key} {value}") if value else None for value in column]
