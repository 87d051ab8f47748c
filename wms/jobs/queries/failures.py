"""Failed jobs, grouped by cause, and by site, host and exit code; and what those of a group have in common."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from django.db.models import OuterRef, Subquery, Value
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Coalesce

from wms.accounts.models import User
from wms.jobs.domain.commonalities import (
    CE,
    HOST,
    OWNER,
    SITE,
    STARTED,
    Commonality,
    ComparedJobs,
    Facts,
    fact,
    facts_of_words,
)
from wms.jobs.domain.reasons import Reason, normalised
from wms.jobs.models import Job, OutputTail
from wms.jobs.queries.breakdown import NEWEST, Property, breakdown, ids_of_newest, with_host
from wms.jobs.queries.filtering import JobFilters

#: Groups of which an example is read, and places of each that are listed.
MOST_GROUPS: Final = 20
MOST_PLACES: Final = 8
#: Failed jobs, and jobs that are Done, that are compared: the newest of each.
MOST_COMPARED: Final = 1000


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
    """Failed jobs with one kind of cause and the same exit code."""

    #: Of the example.
    reason: Reason
    #: Key of the cause that the output tells; empty: it is the reason.
    cause: str
    #: None: the payload did not end by itself.
    exit_code: int | None
    jobs: int
    #: The places with most of them first, at most MOST_PLACES.
    places: Sequence[FailuresAt]
    #: Number of all places.
    place_count: int
    #: {site: jobs of the group that failed there}; empty: unknown.
    sites: Mapping[str, int]
    #: The newest job, with the last lines of its output.
    example: Job
    #: What the jobs of the group have in common, and few others.
    common: Sequence[Commonality]

    @property
    def title(self) -> str:
        """The cause in the words of the example."""
        return (self.cause and self.example.cause_line) or self.example.minor_status or "No reason given"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """Failed jobs in groups, the largest first; at most MOST_GROUPS."""

    groups: Sequence[FailureGroup]
    group_count: int
    #: Number of jobs that were grouped.
    jobs: int
    #: Whether these are all that match; otherwise they are the newest ones.
    is_whole: bool
    #: {site: jobs that are Done}, where groups are compared with these.
    done_at: Mapping[str, int]


class _Kind(NamedTuple):
    cause: str
    #: None: the cause is known.
    reason: Reason | None
    exit_code: int | None


class _Failed(NamedTuple):
    pk: int
    minor_status: str
    exit_code: int | None
    place: FailurePlace
    cause: str


def failures(filters: JobFilters, *, by: User, done: JobFilters | None = None, newest: int = NEWEST) -> Failures:
    """Return the newest of the filtered jobs visible to *by*, in groups.

    Args:
        filters: filters of jobs, by a status of failure.
        by: the caller.
        done: filters of jobs that have not failed, with which each group is compared; None: nothing is compared.
        newest: number of jobs that are read at most.
    """
    job_ids = ids_of_newest(filters, by=by, at_most=newest + 1)
    counted = job_ids[:newest]
    members: dict[_Kind, list[_Failed]] = defaultdict(list)
    failed = list(_failed(counted))
    # Each reason once: thousands of jobs have few.
    reasons = {reason: normalised(reason) for reason in {job.minor_status for job in failed if not job.cause}}
    for job in failed:
        members[_Kind(job.cause, None if job.cause else reasons[job.minor_status], job.exit_code)].append(job)
    largest = sorted(members, key=lambda kind: (-len(members[kind]), _order(kind)))[:MOST_GROUPS]
    newest_of = {kind: max(job.pk for job in members[kind]) for kind in largest}
    examples = Job.objects.select_related("owner").prefetch_related("output_tails").in_bulk(newest_of.values())
    done_ids = ids_of_newest(done, by=by, at_most=MOST_COMPARED) if done is not None and counted else []
    facts = _facts([*counted[:MOST_COMPARED], *done_ids]) if done is not None else {}
    compared, place_of = ComparedJobs(list(facts.values())), {pk: place for place, pk in enumerate(facts)}
    return Failures(
        groups=[
            _group(kind, members[kind], examples[newest_of[kind]], common=_common(members[kind], compared, place_of))
            for kind in largest
            if newest_of[kind] in examples
        ],
        group_count=len(members),
        jobs=len(counted),
        is_whole=len(job_ids) <= newest,
        done_at=_done_at(done, by=by) if done is not None and done_ids else {},
    )


def _done_at(done: JobFilters, *, by: User) -> Mapping[str, int]:
    return {part.value: part.jobs for part in breakdown(done, Property.SITE, by=by).parts}


def _order(kind: _Kind) -> tuple[str, str, int]:
    return (kind.reason.text if kind.reason else "", kind.cause, kind.exit_code or 0)


def _failed(job_ids: Sequence[int]) -> Iterable[_Failed]:
    # Uses index: jobs_job_pkey, jobs_outputtail_pkey
    tails = OutputTail.objects.filter(job=OuterRef("pk"), attempt=OuterRef("reschedules"))
    jobs = with_host(Job.objects.filter(pk__among=job_ids)).annotate(
        cause=Coalesce(Subquery(tails.values("cause")), Value(""))
    )
    rows = jobs.values_list("pk", "minor_status", "exit_code", "site__name", "host", "cause")
    for pk, minor_status, exit_code, site, host, cause in rows:
        yield _Failed(pk, minor_status, exit_code, FailurePlace(site or "", host or ""), cause)


def _group(kind: _Kind, jobs: Sequence[_Failed], example: Job, *, common: Sequence[Commonality]) -> FailureGroup:
    jobs_at = Counter(job.place for job in jobs)
    largest = sorted(jobs_at, key=lambda place: (-jobs_at[place], place))
    return FailureGroup(
        reason=normalised(example.minor_status) if kind.reason is None else kind.reason,
        cause=kind.cause,
        exit_code=kind.exit_code,
        jobs=len(jobs),
        places=[FailuresAt(place=place, jobs=jobs_at[place]) for place in largest[:MOST_PLACES]],
        place_count=len(jobs_at),
        sites=Counter(job.place.site for job in jobs),
        example=example,
        common=common,
    )


def _common(jobs: Sequence[_Failed], compared: ComparedJobs, place_of: Mapping[int, int]) -> list[Commonality]:
    """Compare the jobs of a group with all others: those that failed for other causes, and those that are Done."""
    return compared.common_to([place_of[job.pk] for job in jobs if job.pk in place_of])


def _facts(job_ids: Sequence[int]) -> dict[int, Facts]:
    """Return {job: where and when it ran, and its arguments and environment}."""
    rows = with_host(Job.objects.filter(pk__among=job_ids)).values_list(
        *("pk", "host", "queue__ce__name", "site__name", "owner__username", "job_name", "started_at"),
        KeyTextTransform("arguments", "stored_description__description"),
        KeyTransform("environment", "stored_description__description"),
    )
    found: dict[int, Facts] = {}
    for pk, host, ce, site, owner, job_name, started_at, arguments, environment in rows:
        facts: dict[str, str | float] = {}
        facts |= {name: text for name, text in ((HOST, host), (CE, ce), (SITE, site)) if text}
        facts |= facts_of_words(arguments or "")
        for name, value in (environment or {}).items():
            facts |= fact(f"${name}", str(value))
        facts |= {name: number for name, number in fact("the name", job_name).items() if name != "the name"}
        facts |= {OWNER: owner}
        facts |= {STARTED: started_at.timestamp()} if started_at else {}
        found[pk] = facts
    return found


def last_lines_of(job: Job) -> str:
    """Return the last lines that tell why the job failed: of the stream that has its cause, else of standard error."""
    return job.std_output_tail if is_told_by_output(job) else job.std_error_tail


def is_told_by_output(job: Job) -> bool:
    """Return whether standard output tells why the job failed, and standard error does not."""
    error, output = job.std_error_tail, job.std_output_tail
    if job.cause_line and job.cause_line not in error:
        return job.cause_line in output or not error
    return bool(output) and not error
