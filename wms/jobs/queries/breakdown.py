"""Numbers of filtered jobs by one property, and all filtered jobs in portions: with a bound on what is read at once."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, OuterRef, QuerySet, Subquery

from wms.accounts.models import User
from wms.jobs import queries
from wms.jobs.models import Job, JobOnHost, JobQuerySet, NameRest, SubmissionContent
from wms.jobs.queries.filtering import JobFilters
from wms.jobs.queries.found_jobs import Extent, find
from wms.jobs.sql.lists import ids_of

#: Jobs that are read for numbers that no counter has: they are read in some tens of milliseconds.
NEWEST: Final = 5000
#: Jobs with their related rows that are read at once when all are.
AT_ONCE: Final = 1000


class Property(StrEnum):
    """A property by which the jobs of a list are broken down."""

    STATUS = "status"
    SITE = "site"
    REASON = "reason"
    HOST = "host"
    SUBMISSION = "submission"


_COLUMNS: Final[Mapping[Property, str]] = MappingProxyType(
    {
        Property.STATUS: "status",
        Property.SITE: "site__name",
        Property.REASON: "minor_status",
        Property.HOST: "host",
        Property.SUBMISSION: "submission_id",
    }
)
#: Properties of which counters know the numbers.
_COUNTED: Final = frozenset({Property.STATUS, Property.SITE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The number of jobs with one value of the property; an empty value: they have none."""

    value: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakdown:
    """Numbers of jobs by one property, the largest first."""

    parts: Sequence[Part]
    #: Number of jobs that were counted.
    jobs: int
    #: Whether these are all that match; otherwise they are the newest ones.
    is_whole: bool


def breakdown(filters: JobFilters, each: Property, *, by: User, newest: int = NEWEST) -> Breakdown:
    """Return the numbers of the filtered jobs visible to *by*, by one property.

    Args:
        filters: filters of jobs.
        each: the property.
        by: the caller.
        newest: number of jobs that are read at most; where counters have the numbers, no job is read.
    """
    if each in _COUNTED and queries.is_counted(filters, group_by=(each,)):
        tallies = queries.summary(filters, by=by, group_by=(each,))
        parts = [Part(value=tally.values[each] or "", jobs=tally.count) for tally in tallies]
        parts.sort(key=lambda part: (-part.jobs, part.value))
        return Breakdown(parts=parts, jobs=sum(part.jobs for part in parts), is_whole=True)
    job_ids = ids_of_newest(filters, by=by, at_most=newest + 1)
    counted = job_ids[:newest]
    numbers = _numbers_of(Job.objects.filter(pk__among=counted), each)
    return Breakdown(parts=numbers, jobs=len(counted), is_whole=len(job_ids) <= newest)


def ids_of_newest(filters: JobFilters, *, by: User, at_most: int) -> list[int]:
    """Return the ids of the newest filtered jobs visible to *by*, the newest first."""
    return sorted(ids_of(find(filters, Extent(at_most=at_most), by=by)), reverse=True)


def statuses_among(job_ids: Collection[int], *, by: User) -> list[Part]:
    """Return the numbers of those of the jobs that are visible to *by*, by status."""
    return _numbers_of(Job.objects.visible_to(by).filter(pk__among=job_ids), Property.STATUS)


def _numbers_of(jobs: JobQuerySet, each: Property) -> list[Part]:
    column = _COLUMNS[each]
    rows: QuerySet[Job] = with_host(jobs) if each is Property.HOST else jobs
    found = rows.values_list(column).annotate(jobs=Count("pk")).order_by("-jobs", column)
    return [Part(value="" if value is None else str(value), jobs=number) for value, number in found]


def with_host(jobs: JobQuerySet) -> QuerySet[Any]:
    """Annotate ``host``: the host of the job's last match, or null."""
    # Uses index: matching_match_job_id_aeda778d. A job may be there twice.
    hosts = JobOnHost.objects.filter(job=OuterRef("pk")).values("host_name")[:1]
    return jobs.annotate(host=Subquery(hosts))


def names_of_submissions(submissions: Collection[str]) -> dict[str, str]:
    """Return {id of a submission: name of its jobs, or beginning of their names with ``*``}, if they share any."""
    # Uses index: jobs_submissioncontent_pkey
    found = SubmissionContent.objects.filter(pk__in=[UUID(submission) for submission in submissions])
    rows = found.values_list("pk", "name_prefix", "name_rest")
    return {str(pk): prefix if rest == NameRest.NOTHING else f"{prefix}*" for pk, prefix, rest in rows if prefix}


def all_listed(filters: JobFilters, *, by: User) -> Iterator[Job]:
    """Yield all filtered jobs visible to *by*, as ``queries.listed``, newest first; AT_ONCE are in memory.

    Each portion is read when it is asked for: jobs that come meanwhile are left out, and one whose status changes
    meanwhile is as it is when its portion is read.
    """
    before: int | None = None
    while True:
        jobs = queries.listed(filters, Extent(at_most=AT_ONCE, before=before), by=by)
        yield from jobs
        if len(jobs) < AT_ONCE:
            return
        before = jobs[-1].pk
