"""Jobs found by filters, newest or oldest first, without reading the jobs that do not match (ADR 54).

The counters know how many jobs of each owner, group and status there are, and at which sites. The index of jobs by
these properties has the jobs of each such kind in the order of their ids: a page is merged from the first ones of each.
"""

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Model, QuerySet, Sum
from django.db.models.expressions import CombinedExpression, OrderBy

from resources.models import Site
from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentJobCount, CurrentSiteJobCount, Job, JobQuerySet, OwnedQuerySet
from wms.jobs.queries import contents
from wms.jobs.queries.filtering import JobFilters, narrowing_fields
from wms.jobs.sql.lists import (
    CANDIDATE,
    CountRow,
    counts_in_kinds,
    counts_of_submissions,
    first_of_kinds,
    first_of_submissions,
)

#: Jobs in these statuses have not run since they were last in a task queue.
_WITHOUT_EXIT_CODE: Final = (
    JobStatus.RECEIVED,
    JobStatus.WAITING,
    JobStatus.HELD,
    JobStatus.MATCHED,
    JobStatus.RUNNING,
    JobStatus.STALLED,
)
#: Fields of a job that are the same in a kind of jobs.
_OF_KINDS: Final = frozenset({"owner", "group", "vo", "status", "site"})
#: Fields of a job with whose values few jobs are.
_SELECTIVE: Final = frozenset({"id", "submission", "hosts", "job_group", "job_name"})
#: Jobs that are read in less time than all jobs of a large site.
_FEW: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """A part of a list of jobs, which is in the order of their ids."""

    at_most: int
    newest_first: bool = True
    #: Only jobs with smaller ids.
    before: int | None = None
    #: Only jobs with larger ids.
    after: int | None = None

    def within(self, jobs: JobQuerySet) -> JobQuerySet:
        """Return those of the jobs whose ids are in the extent."""
        if self.before is not None:
            jobs = jobs.filter(pk__lt=self.before)
        return jobs if self.after is None else jobs.filter(pk__gt=self.after)


def find(filters: JobFilters, extent: Extent, *, by: User) -> JobQuerySet:
    """Return the jobs in this part of a filtered list, in its order; only jobs visible to *by*."""
    names = frozenset(narrowing_fields(filters))
    jobs = extent.within(Job.objects.all())
    if names & {"id", "submission", "hosts"}:
        # Uses index: job_of_submission, or the primary key.
        # The sum keeps the planner from reading all jobs in the order of ids.
        matching = _matching(filters, jobs, names, by=by)
        # As a subquery, so that related rows are read for this page only.
        page = matching.order_by(_directed(F("pk") + 0, extent)).values("pk")[: extent.at_most]
        return Job.objects.filter(pk__in=page).order_by(_directed(F("pk"), extent))
    if names & contents.COMMON - {"job_type"} or (names & contents.COMMON and "site" not in names):
        # The candidates have the owner, in whose index of kinds the planner would look for the jobs.
        matching = _matching(filters, jobs, names, by=by, but=("site", "owner", "group", "vo"))
        matching = matching.filter(contents.has_counted(filters, names, submission=CANDIDATE))
        candidates = contents.may_match(filters, by=by)
        found = first_of_submissions(candidates, matching, at_most=extent.at_most, newest_first=extent.newest_first)
        return found.order_by(_directed(F("pk"), extent))
    if "submitted_at" in names:
        jobs = contents.between(filters, jobs)
    if by.is_operator and names <= {"submitted_at"}:
        # Most jobs match: no look-up for each of thousands of kinds is needed.
        return filters.filter_queryset(jobs).order_by(_directed(F("pk"), extent))[: extent.at_most]
    return _first_of(_kinds(filters, names, by=by), filters.filter_queryset(jobs, but=_OF_KINDS), extent)


def counts_of_found(filters: JobFilters, columns: Sequence[str], *, by: User) -> Iterator[CountRow]:
    """Yield the numbers of the filtered jobs visible to *by*: values of *columns*, which give the order, and number.

    The jobs are read: where a counter has all properties, it is to be asked.
    """
    names = frozenset(narrowing_fields(filters))
    selective = names & _SELECTIVE
    is_vague = "*" in filters.form.cleaned_data.get("job_name", "") or selective == {"job_group"}
    if "site" in names and is_vague and contents.most_jobs(filters, by=by) > _FEW:
        # A site has fewer jobs than many patterns and labels.
        selective -= {"job_name", "job_group"}
    if selective or (by.is_operator and not names & (_OF_KINDS - {"status"})):
        # Uses index: job_of_submission, the primary key, or none where most jobs are read anyway.
        jobs = _matching(filters, Job.objects.all(), names, by=by)
        if names & contents.COMMON and "hosts" not in names:
            jobs = jobs.filter(submission__in=contents.may_match(filters, by=by).values("pk"))
        yield from jobs.order_by(*columns).values_list(*columns).annotate(count=Count("pk"))
        return
    kinds = _by_kind(_kinds(filters, names, by=by))
    jobs = filters.filter_queryset(Job.objects.all(), but=_OF_KINDS)
    by_contents = names & (contents.COMMON | {"submitted_at"})
    if by_contents and {"site"} <= names <= _OF_KINDS | by_contents | {"exit_code"} and "job_type" not in columns:
        # Uses index: job_of_its_kind_at_site, without reading the jobs of submissions all of whose jobs match.
        indexed = filters.filter_queryset(Job.objects.all(), but=_OF_KINDS | by_contents)
        yield from counts_of_submissions(kinds, indexed, jobs, contents.decided(filters, by=by), columns)
        return
    yield from counts_in_kinds(kinds, jobs, columns)


def newest_of(owner: User) -> JobQuerySet:
    """Return the owner's newest job, or none."""
    return _first_of(CurrentJobCount.objects.filter(owner=owner), Job.objects.all(), Extent(at_most=1))


def newest_in_status(owner: User, status: JobStatus, *, at_most: int) -> JobQuerySet:
    """Return the owner's newest jobs in *status*, newest first."""
    return _first_of(
        CurrentJobCount.objects.filter(owner=owner, status=status), Job.objects.all(), Extent(at_most=at_most)
    )


def newest_at(owner: User, site_ids: Collection[int], *, at_most: int) -> JobQuerySet:
    """Return the owner's newest jobs whose last match was at one of the sites, newest first."""
    counted = CurrentSiteJobCount.objects.filter(owner=owner, site__in=site_ids)
    return _first_of(counted, Job.objects.all(), Extent(at_most=at_most))


def _first_of(counted: OwnedQuerySet[Model], jobs: JobQuerySet, extent: Extent) -> JobQuerySet:
    found = first_of_kinds(_by_kind(counted), jobs, at_most=extent.at_most, newest_first=extent.newest_first)
    return found.order_by(_directed(F("pk"), extent))


def _matching(
    filters: JobFilters, jobs: JobQuerySet, names: AbstractSet[str], *, by: User, but: Sequence[str] = ("site",)
) -> JobQuerySet:
    """Return the filtered jobs, where the planner is not to begin with all jobs of the filtered site."""
    found = filters.filter_queryset(jobs, but=but).visible_to(by)
    if "site" not in names:
        return found
    at_site = ExpressionWrapper(F("site_id") + 0, output_field=BigIntegerField())
    sites = Site.objects.filter(name=filters.form.cleaned_data["site"])
    return found.alias(at_site=at_site).filter(at_site__in=sites.values("pk"))


def _kinds(filters: JobFilters, names: AbstractSet[str], *, by: User) -> OwnedQuerySet[Model]:
    """Return the counted kinds of jobs visible to *by*, as far as the filters name properties of kinds."""
    counter: OwnedQuerySet[Model] = (CurrentSiteJobCount if "site" in names else CurrentJobCount).objects.all()
    counted = filters.filter_queryset(counter).visible_to(by)
    # The other counter has the exit codes themselves.
    return counted.exclude(status__in=_WITHOUT_EXIT_CODE) if names >= {"exit_code", "site"} else counted


def _by_kind(counted: OwnedQuerySet[Model]) -> QuerySet[Model, object]:
    """Return the columns that jobs of a kind share, and their number."""
    # Uses index: job_of_its_kind, or job_of_its_kind_at_site
    columns = ["owner_id", "group_id", "status", *(["site_id"] if counted.model is CurrentSiteJobCount else [])]
    kinds: QuerySet[Model, object] = counted.values_list(*columns).annotate(sum=Sum("jobs"))
    return kinds.filter(sum__gt=0).order_by()


def _directed(order: F | CombinedExpression, extent: Extent) -> OrderBy:
    return order.desc() if extent.newest_first else order.asc()
