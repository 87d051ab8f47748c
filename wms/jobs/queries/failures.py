"""Failed jobs, grouped by what their reasons have in common, and by site, host and exit code."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.db.models import Count, Max

from wms.accounts.models import User
from wms.jobs.domain.reasons import Reason, normalised
from wms.jobs.models import Job
from wms.jobs.queries.breakdown import NEWEST, ids_of_newest, with_host
from wms.jobs.queries.filtering import JobFilters

#: Groups of which an example is read, and places of each that are listed.
MOST_GROUPS: Final = 20
MOST_PLACES: Final = 8


class FailurePlace(NamedTuple):
    """Site and host at which jobs failed; empty: unknown."""

    site: str
    host: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailuresAt:
    """The number of jobs of a group that failed at one place."""

    place: FailurePlace
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failed jobs with the same kind of reason and the same exit code."""

    reason: Reason
    #: None: the payload did not end by itself.
    exit_code: int | None
    jobs: int
    #: The places with most of them first, at most MOST_PLACES.
    places: Sequence[FailuresAt]
    #: Number of all places.
    place_count: int
    #: The newest job, with the last lines of its output.
    example: Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed jobs in groups, the largest first; at most MOST_GROUPS."""

    groups: Sequence[FailureGroup]
    group_count: int
    #: Number of jobs that were grouped.
    jobs: int
    #: Whether these are all that match; otherwise they are the newest ones.
    is_whole: bool


class _Kind(NamedTuple):
    reason: Reason
    exit_code: int | None


def failures(filters: JobFilters, *, by: User, newest: int = NEWEST) -> Failures:
    """Return the newest of the filtered jobs visible to *by*, in groups.

    Args:
        filters: filters of jobs, by a status of failure.
        by: the caller.
        newest: number of jobs that are read at most.
    """
    job_ids = ids_of_newest(filters, by=by, at_most=newest + 1)
    counted = job_ids[:newest]
    places: dict[_Kind, dict[FailurePlace, int]] = defaultdict(lambda: defaultdict(int))
    example_of: dict[_Kind, int] = {}
    # Uses index: jobs_job_pkey
    jobs_with_host = with_host(Job.objects.filter(pk__among=counted))
    rows = jobs_with_host.values_list("minor_status", "exit_code", "site__name", "host")
    numbers = rows.annotate(jobs=Count("pk"), newest=Max("pk")).order_by()
    for reason, exit_code, site, host, jobs, newest_id in numbers:
        kind = _Kind(normalised(reason), exit_code)
        places[kind][FailurePlace(site or "", host or "")] += jobs
        example_of[kind] = max(newest_id, example_of.get(kind, 0))
    largest = sorted(places, key=lambda kind: (-sum(places[kind].values()), kind.reason.text, kind.exit_code or 0))
    examples = _examples([example_of[kind] for kind in largest[:MOST_GROUPS]])
    return Failures(
        groups=[
            _group(kind, places[kind], examples[example_of[kind]])
            for kind in largest[:MOST_GROUPS]
            if example_of[kind] in examples
        ],
        group_count=len(places),
        jobs=len(counted),
        is_whole=len(job_ids) <= newest,
    )


def _group(kind: _Kind, jobs_at: Mapping[FailurePlace, int], example: Job) -> FailureGroup:
    largest = sorted(jobs_at, key=lambda place: (-jobs_at[place], place))
    return FailureGroup(
        reason=kind.reason,
        exit_code=kind.exit_code,
        jobs=sum(jobs_at.values()),
        places=[FailuresAt(place=place, jobs=jobs_at[place]) for place in largest[:MOST_PLACES]],
        place_count=len(jobs_at),
        example=example,
    )


def _examples(job_ids: Sequence[int]) -> Mapping[int, Job]:
    return Job.objects.select_related("output_tail").in_bulk(job_ids)


def last_lines_of(job: Job) -> str:
    """Return the last lines that tell why the job failed."""
    return job.std_output_tail
