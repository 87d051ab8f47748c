"""Queries on jobs."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Final

from django.conf import settings
from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet, Subquery, Sum

from resources.queries.known_names import known_elements, known_middlewares
from resources.queries.places import queues_of
from resources.queries.replicas import element_sites
from taskqueues.models import Limit, QueuedJob
from wms.accounts.models import VO, Group, User
from wms.jobs.domain.causes import LOST_OUTPUT
from wms.jobs.domain.data import home_of
from wms.jobs.domain.description import DEFAULT_JOB_TYPE
from wms.jobs.domain.executable_warnings import SandboxFile, depends_on_files
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.submission_warnings import CheckedJob, Surroundings, findings_about
from wms.jobs.models import (
    CurrentJobCount,
    CurrentSiteJobCount,
    CurrentSubmissionJobCount,
    Job,
    JobHistory,
    JobQuerySet,
    JobRetry,
    OutputTail,
    OwnedQuerySet,
    StoredDescription,
    UsageSamples,
)
from wms.jobs.models.descriptions import NAMES_INPUT_DATA
from wms.jobs.queries import contents
from wms.jobs.queries.filtering import JobFilters, narrowing_fields
from wms.jobs.queries.found_jobs import Extent, counts_of_found, find, newest_of
from wms.jobs.sql.lists import CountRow

#: {property by which jobs can be counted: its column}.
GROUP_BY: Final[Mapping[str, str]] = MappingProxyType(
    {
        "status": "status",
        "site": "site__name",
        "owner": "owner__username",
        "group": "group__name",
        "job_type": "job_type",
    }
)
#: (Numbers of jobs, the smallest table first; fields by which they are counted, beside status, owner, group and VO).
_COUNTERS: Final[Sequence[tuple[OwnedQuerySet[Model], AbstractSet[str]]]] = (
    (CurrentJobCount.objects.all(), {"job_type", "exit_code"}),
    (CurrentSubmissionJobCount.objects.all(), {"submission", "exit_code"}),
    (CurrentSiteJobCount.objects.all(), {"site"}),
)
_ALWAYS_COUNTED_BY: Final = frozenset({"status", "owner", "group", "vo"})


def own_directories(owner: User, *, group: Group, vo: VO) -> tuple[str, ...]:
    """Return the logical directories that jobs of this owner, in this group, may write to."""
    if VO.objects.managed_by(owner).filter(pk=vo.pk).exists():
        return (f"/{vo}",)
    shared = (f"/{vo}/{group}",) if group.shares_jobs else ()
    return (home_of(owner.username, vo=vo.name), *shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Number of jobs with equal values of the counted properties; a value of None means that they have none."""

    values: Mapping[str, str | None]
    count: int


def in_list(jobs: JobQuerySet) -> JobQuerySet:
    """Load what a row of a list names.

    These are related rows, ``task_queue_id``, that of a waiting job, and what ``has_lost_output`` returns.
    """
    waits_in = QueuedJob.objects.filter(pk=OuterRef("pk")).values("task_queue_id")
    # Uses index: output_tail_by_cause
    lost = OutputTail.objects.filter(job=OuterRef("pk"), attempt=OuterRef("reschedules"), cause=LOST_OUTPUT)
    return jobs.select_related("owner", "group", "vo", "site", "queue__ce").annotate(
        task_queue_id=Subquery(waits_in), has_lost_output=Q(status=JobStatus.DONE) & Q(Exists(lost))
    )


def has_lost_output(job: Job) -> bool:
    """Return whether a job, loaded by ``in_list``, is Done, and a part of its output is stored nowhere."""
    return bool(vars(job).get("has_lost_output"))  # an annotation


def with_surroundings(jobs: JobQuerySet) -> JobQuerySet:
    """Load what a response about one job names: as ``in_list``, description, retries, last lines of its attempts."""
    return with_retries(in_list(jobs)).select_related("stored_description").prefetch_related("output_tails")


def with_retries(jobs: JobQuerySet) -> JobQuerySet:
    """Load ``predecessor``, the id of the job that a job retries with changes, and ``successor``, of its retry."""
    # Uses index: the unique one of the predecessor.
    retries = JobRetry.objects.filter(predecessor_id=OuterRef("pk")).values("job_id")
    return jobs.annotate(predecessor=F("retry_of__predecessor_id"), successor=Subquery(retries))


def outputs_of(job: Job) -> list[OutputTail]:
    """Return the last lines of output of the job's attempts, the oldest first; attempts that sent none are left out."""
    # Uses index: jobs_outputtail_pkey
    return sorted(job.output_tails.all(), key=lambda tail: tail.attempt)


def samples_of(job: Job) -> list[UsageSamples]:
    """Return the usage of the payloads of the job's attempts over time, the oldest first."""
    # Uses index: jobs_usagesamples_pkey
    return list(UsageSamples.objects.filter(job=job).order_by("attempt"))


def listed(filters: JobFilters, extent: Extent, *, by: User) -> list[Job]:
    """Return the jobs in this part of a filtered list, with related rows and without long texts."""
    return list(in_list(find(filters, extent, by=by)))


def summary(filters: JobFilters, *, by: User, group_by: Sequence[str]) -> Iterator[Tally]:
    """Return the number of jobs by the values of *group_by*: names of GROUP_BY.

    Jobs are counted only where no counter has all properties that the filters and *group_by* name (ADR 53), and only
    those of submissions whose jobs differ in one of them (ADR 59).

    Args:
        filters: filters of jobs, as by ``wms.jobs.filters``.
        by: the caller; only jobs visible to it are counted.
        group_by: the properties to count by.
    """
    columns = {name: GROUP_BY[name] for name in group_by}
    names = {*narrowing_fields(filters), *(column.partition("__")[0] for column in columns.values())}
    counted = _counted_by(names)
    rows: Iterable[CountRow]
    if counted is None and names <= contents.TOLD:
        rows = contents.counts(filters, list(columns.values()), by=by)
    elif counted is None:
        rows = counts_of_found(filters, list(columns.values()), by=by)
    else:
        numbers = filters.filter_queryset(counted.visible_to(by)).values_list(*columns.values())
        rows = numbers.annotate(count=Sum("jobs")).filter(count__gt=0).order_by(*columns.values())
    for *values, count in rows:
        yield Tally(values=dict(zip(columns, values, strict=True)), count=count)


def is_counted(filters: JobFilters, *, group_by: Sequence[str]) -> bool:
    """Return whether ``summary`` answers from counters: without jobs, except those of undecided submissions."""
    names = {*narrowing_fields(filters), *(GROUP_BY[name].partition("__")[0] for name in group_by)}
    return _counted_by(names) is not None or names <= contents.TOLD


def _counted_by(names: AbstractSet[str]) -> OwnedQuerySet[Model] | None:
    """Return numbers of jobs by all these fields; None: no counter has all of them."""
    return next((counter for counter, further in _COUNTERS if names <= _ALWAYS_COUNTED_BY | further), None)


def are_awaited(lfns: Collection[str]) -> bool:
    """Return whether any Waiting or Checking job reads one of the files, in any VO."""
    return Job.objects.placed_with_input_data().filter(reads_any(lfns)).exists()


def reads_any(lfns: Collection[str]) -> Q:
    """Return the condition on placed jobs with input data that they read one of the files."""
    # Uses index: description_of_input_file
    naming = StoredDescription.objects.filter(NAMES_INPUT_DATA, description__input_data__has_any_keys=list(lfns))
    # Uses index: job_of_stored_description
    return Q(stored_description__id__among=naming.values("pk"))


def history(job: Job) -> QuerySet[JobHistory]:
    """Return every change of the job, oldest first."""
    # Uses index: jobs_jobhistory_pkey
    return JobHistory.objects.filter(job=job).order_by("pk")


def group_of_last_job(owner: User) -> int | None:
    """Return the primary key of the group of *owner*'s last job; None: there is none."""
    return newest_of(owner).values_list("group_id", flat=True).first()


def surroundings_of(descriptions: Collection[Mapping[str, object]], *, vo: VO) -> Surroundings:
    """Return the facts that descriptions of jobs of *vo* are compared with; only those needed are read."""
    asked_of_pilots = any(description["grid_middlewares"] for description in descriptions)
    has_output = any(description["output_data"] for description in descriptions)
    stated_types = {description["job_type"] for description in descriptions}
    names_element = any(description["output_se"] for description in descriptions)
    return Surroundings(
        middlewares=known_middlewares(vo) if asked_of_pilots else frozenset(),
        longest_segment_s=max(settings.WMS_CPU_SEGMENTS_S),
        stores_output=bool(has_output and element_sites(vo.pk)),
        elements=known_elements(vo) if names_element else frozenset(),
        job_types=_job_types(vo) if stated_types - {DEFAULT_JOB_TYPE} else frozenset({DEFAULT_JOB_TYPE}),
    )


def _job_types(vo: VO) -> frozenset[str]:
    """Return the job types that queues and limits of the VO name, and the default one."""
    of_queues = queues_of(vo).exclude(job_types=[]).values_list("job_types", flat=True)
    of_limits = Limit.objects.filter(Q(vo=vo) | Q(vo=None)).exclude(job_type="").values_list("job_type", flat=True)
    return frozenset({DEFAULT_JOB_TYPE, *chain.from_iterable(of_queues), *of_limits})


def description_warnings(job: Job) -> list[str]:
    """Return the warnings about the job's description, as at its submission."""
    description = job.description
    # For most jobs the files need not be read.
    rows = job.input_sandboxes.select_related("sandbox") if depends_on_files(description) else ()
    files = [SandboxFile(row.file_name, row.sandbox.is_archive) for row in rows]
    found = findings_about([CheckedJob(description, files)], surroundings_of([description], vo=job.vo))
    return [finding.text for finding in found]
