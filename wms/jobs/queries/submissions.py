"""Submissions: lists, numbers of their jobs, and where these run."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.db.models.fields.json import KeyTransform

from wms.accounts.models import User
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import CurrentSubmissionJobCount, Job, SubmissionContent

#: Statuses of payloads that have ended by themselves: the ends by which a rate is measured.
_ENDED = (JobStatus.DONE, JobStatus.FAILED)


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
    #: Payloads that have ended since a time.
    recently_ended: int
    #: Jobs whose output can be downloaded.
    outputs: int


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


def jobs_of(submission_id: UUID, *, since: datetime) -> JobsOfSubmission:
    """Return what the jobs of a submission tell; a submission has at most ten thousand.

    Args:
        submission_id: of the jobs.
        since: begin of the time in which ends are counted.
    """
    # Uses index: job_of_submission
    jobs = Job.objects.filter(submission=submission_id).exclude(status=JobStatus.DELETED)
    rows = (
        jobs.values_list("site__name", "status")
        .annotate(
            jobs=Count("pk"),
            ended=Count("pk", filter=Q(ended_at__gt=since, status__in=_ENDED)),
            outputs=Count("output_sandbox"),
        )
        .order_by("site__name", "status")
    )
    places, recently_ended, outputs = [], 0, 0
    for site, status, number, ended, with_output in rows:
        places.append(PlaceCount(site=site or "", status=status, jobs=number))
        recently_ended += ended
        outputs += with_output
    return JobsOfSubmission(places=places, recently_ended=recently_ended, outputs=outputs)


def outputs_of(submission_id: UUID, *, by: User) -> list[JobOutput]:
    """Return the outputs of the jobs of a submission that *by* may see, by job; of Deleted jobs none."""
    # Uses index: job_of_submission
    jobs = Job.objects.visible_to(by).filter(submission=submission_id, output_sandbox__isnull=False)
    rows = jobs.exclude(status=JobStatus.DELETED).order_by("pk").values_list("pk", "output_sandbox__digest")
    return [JobOutput(job_id=job_id, digest=digest) for job_id, digest in rows]
