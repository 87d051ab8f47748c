"""Submissions: lists, numbers of their jobs, and where these run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple
from uuid import UUID

from django.db.models import Count, F, FloatField, Min, Q, Sum, Value
from django.db.models.expressions import CombinedExpression
from django.db.models.fields.json import KeyTransform
from django.db.models.functions import Cast, Extract

from wms.accounts.models import User
from wms.jobs.domain.lifecycle import FINAL, LEASED, JobStatus
from wms.jobs.domain.time_left import PayloadProgress
from wms.jobs.models import CurrentSubmissionJobCount, Job, SubmissionContent

#: Time in which ends are counted.
RECENTLY: Final = timedelta(hours=1)
#: Statuses of payloads that have ended by themselves: the ends by which a rate is measured.
_ENDED = (JobStatus.DONE, JobStatus.FAILED)
#: Of jobs that start without being asked to.
_TO_START = frozenset(JobStatus) - FINAL - LEASED - {JobStatus.HELD}


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSubmission:
    """A submission and the numbers of its jobs by status, without statuses of no job."""

    #: With its submission, owner and group.
    content: SubmissionContent
    jobs: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceCount:
    """Number of jobs of a submission at one site, in one status."""

    #: Of the last match; empty: none.
    site: str
    status: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsOfSubmission:
    """Properties of the jobs of a submission; Deleted ones are left out."""

    places: Sequence[PlaceCount]
    #: Payloads that have ended RECENTLY.
    recently_ended: int
    #: Jobs whose output can be downloaded.
    outputs: int
    progress: PayloadProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """The output sandbox of one job."""

    job_id: int
    #: SHA-256 of the sandbox, in hexadecimal.
    digest: str


def of_owner(
    owner: User, *, at_most: int, newest_first: bool = True, before: int | None = None, after: int | None = None
) -> list[SubmissionContent]:
    """Return submissions of *owner*, in the order of their first jobs.

    Args:
        owner: of the jobs.
        at_most: their number.
        newest_first: whether the newest are the first.
        before: only submissions with smaller ids of their first jobs.
        after: only submissions with larger ones.
    """
    # Uses index: content_of_owner
    found = SubmissionContent.objects.filter(owner=owner).select_related("submission", "owner", "group")
    found = found if before is None else found.filter(first_job_id__lt=before)
    found = found if after is None else found.filter(first_job_id__gt=after)
    return list(found.order_by("-first_job_id" if newest_first else "first_job_id")[:at_most])


def counted(contents: Sequence[SubmissionContent]) -> list[CountedSubmission]:
    """Return the submissions with the numbers of their jobs, in the same order; one query for all."""
    jobs: defaultdict[UUID, dict[str, int]] = defaultdict(dict)
    # Uses index: submission_job_count_is_one_row
    rows = CurrentSubmissionJobCount.objects.filter(submission__in=[content.pk for content in contents])
    numbers = rows.values_list("submission", "status").annotate(sum=Sum("jobs")).filter(sum__gt=0).order_by()
    for submission_id, status, number in numbers:
        jobs[submission_id][status] = number
    return [CountedSubmission(content=content, jobs=jobs[content.pk]) for content in contents]


def visible_submission(submission_id: UUID, *, by: User) -> CountedSubmission | None:
    """Return a submission; None: there is none that *by* may see."""
    found = SubmissionContent.objects.visible_to(by).filter(pk=submission_id)
    content = found.select_related("submission", "owner", "group", "vo").first()
    return None if content is None else counted([content])[0]


def warnings_of(submission_id: UUID) -> Sequence[str]:
    """Return the warnings with which the submission was answered; none are known of one without a request id."""
    rows = SubmissionContent.objects.filter(pk=submission_id).annotate(
        warnings=KeyTransform("warnings", "submission__answer")
    )
    warnings: Sequence[object] | None = rows.values_list("warnings", flat=True).first()
    return [str(warning) for warning in warnings or ()]


def jobs_of(submission_id: UUID, *, now: datetime) -> JobsOfSubmission:
    """Return what the jobs of a submission tell; a submission has at most ten thousand.

    Args:
        submission_id: of the jobs.
        now: the present time.
    """
    since = now - RECENTLY
    # Uses index: job_of_submission
    jobs = Job.objects.filter(submission=submission_id).exclude(status=JobStatus.DELETED)
    ended = Q(ended_at__gt=since, started_at__isnull=False, status__in=_ENDED)
    running = Q(started_at__isnull=False, status__in=LEASED)
    run_s, elapsed_s = _seconds(F("ended_at") - F("started_at")), _seconds(Value(now) - F("started_at"))
    rows = (
        jobs.values_list("site__name", "status")
        .annotate(
            jobs=Count("pk"),
            outputs=Count("output_sandbox"),
            recently_ended=Count("pk", filter=Q(ended_at__gt=since, status__in=_ENDED)),
            ended=Count("pk", filter=ended),
            run_s=Sum(run_s, filter=ended, default=0.0),
            squares=Sum(run_s * run_s, filter=ended, default=0.0),
            elapsed_s=Sum(elapsed_s, filter=running, default=0.0),
            least_elapsed_s=Min(elapsed_s, filter=running),
        )
        .order_by("site__name", "status")
    )
    found = [_JobsAt._make(row) for row in rows]
    return JobsOfSubmission(
        places=[PlaceCount(site=each.site or "", status=each.status, jobs=each.jobs) for each in found],
        recently_ended=sum(each.recently_ended for each in found),
        outputs=sum(each.outputs for each in found),
        progress=_progress(found),
    )


class _JobsAt(NamedTuple):
    """The jobs of a submission in one status, whose last match was at one site."""

    site: str | None
    status: str
    jobs: int
    outputs: int
    recently_ended: int
    #: Payloads that have ended since then, the sum of their run times, and of the squares of these.
    ended: int
    run_s: float
    squares: float
    #: Of those that run.
    elapsed_s: float
    least_elapsed_s: float | None


def _seconds(duration: CombinedExpression) -> Cast:
    return Cast(Extract(duration, "epoch"), FloatField())


def _progress(found: Sequence[_JobsAt]) -> PayloadProgress:
    ended = sum(each.ended for each in found)
    mean_s = sum(each.run_s for each in found) / max(1, ended)
    variance = sum(each.squares for each in found) / max(1, ended) - mean_s**2
    return PayloadProgress(
        waiting=sum(each.jobs for each in found if each.status in _TO_START),
        running=sum(each.jobs for each in found if each.status in LEASED),
        elapsed_s=sum(each.elapsed_s for each in found),
        least_elapsed_s=min((each.least_elapsed_s for each in found if each.least_elapsed_s is not None), default=0.0),
        ended=ended,
        mean_s=mean_s,
        deviation_s=max(0.0, variance) ** 0.5,
    )


def outputs_of(submission_id: UUID, *, by: User) -> list[JobOutput]:
    """Return the outputs of the jobs of a submission that *by* may see, by job; of Deleted jobs none."""
    # Uses index: job_of_submission
    jobs = Job.objects.visible_to(by).filter(submission=submission_id, output_sandbox__isnull=False)
    rows = jobs.exclude(status=JobStatus.DELETED).order_by("pk").values_list("pk", "output_sandbox__digest")
    return [JobOutput(job_id=job_id, digest=digest) for job_id, digest in rows]
