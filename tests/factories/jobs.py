"""Submissions and jobs."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from math import log1p

from django.db import transaction
from django.db.models import F

from resources.models import Queue, Site
from tests.factories.accounts import make_group, member
from tests.factories.names import NOW
from wms.accounts.models import Group, User
from wms.jobs.domain.accounting import Grouping, Width
from wms.jobs.domain.causes import cause_of
from wms.jobs.domain.description import NOT_STORED, as_json
from wms.jobs.domain.description import parse as parse_description
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.domain.request import SubmissionIn
from wms.jobs.domain.samples import CODES_OF_LOGARITHM, STEP_PARTS
from wms.jobs.models import (
    Job,
    JobBucket,
    JobBucketPeriod,
    JobBucketSum,
    OutputTail,
    Submission,
    UsageSamples,
)
from wms.jobs.services.enqueueing import put_back_in_queues
from wms.jobs.services.submission import SubmissionResult, accept
from wms.jobs.sql.arrivals import store_descriptions


def make_submission(*, owner: User | None = None, group: Group | None = None) -> Submission:
    group = group or make_group()
    return _submission(member(owner, group), group)


def _submission(owner: User, group: Group) -> Submission:
    return Submission.objects.create(owner=owner, group=group, submitted_at=NOW, body_digest=bytes(32))


@transaction.atomic(durable=True)
def submit(request: SubmissionIn, *, owner: User, now: datetime) -> SubmissionResult:
    """Accept jobs as ``matching.services.submission.submit``, without looking for queues that they fit."""
    return accept(request, owner=owner, now=now)


def redescribe(job: Job, *, without: Collection[str] = (), **changes: object) -> None:
    """Give the job another description: fields that are changed, and those that it does not have."""
    described = {name: value for name, value in {**job.description, **changes}.items() if name not in without}
    job.stored_description_id = _stored(described)
    job.save(update_fields=["stored_description"])


def _stored(description: Mapping[str, object]) -> int:
    """Store the description and return its id."""
    text = json.dumps({name: value for name, value in description.items() if name not in NOT_STORED})
    with transaction.atomic():
        return store_descriptions([text])[text]


def tell_cause(job: Job) -> None:
    """Store why the payload of a failed job failed, as the report of its end does."""
    cause = cause_of(None, std_error=job.std_error_tail, std_output=job.std_output_tail)
    assert cause is not None
    OutputTail.objects.filter(job=job).update(cause_line=cause.line, cause=cause.key)


def make_job(
    *,
    owner: User | None = None,
    group: Group | None = None,
    status: JobStatus = JobStatus.WAITING,
    submission: Submission | None = None,
    reschedules: int = 0,
    site: Site | None = None,
    queue: Queue | None = None,
    pilot_id: int | None = None,
    std_output_tail: str = "",
    std_error_tail: str = "",
    submitted_at: datetime = NOW,
    **description: object,
) -> Job:
    """Return a job in *status*, without history; a Waiting one is in its task queue.

    Further arguments are fields of its description. No lease is made for a leased status.
    """
    group = group or (submission.group if submission else make_group())
    owner = member(owner or (submission.owner if submission else None), group)
    wanted = parse_description({"executable": "run.sh", **description})
    job = Job.objects.create(
        submission=submission or _submission(owner, group),
        owner=owner,
        group=group,
        vo=group.vo,
        status=status,
        job_name=wanted.job_name,
        job_group=wanted.job_group,
        job_type=wanted.job_type,
        priority=wanted.priority,
        stored_description_id=_stored({**as_json(wanted), "setup": wanted.setup or group.vo.setup}),
        submit_pools=list(wanted.submit_pools),
        reschedules=reschedules,
        site=site,
        queue=queue,
        pilot_id=pilot_id,
        submitted_at=submitted_at,
        status_changed_at=submitted_at,
        ended_at=submitted_at if status in FINAL else None,
    )
    if std_output_tail or std_error_tail:
        OutputTail.objects.create(
            job=job, attempt=job.attempt, std_output=std_output_tail or None, std_error=std_error_tail or None
        )
    if status is JobStatus.WAITING:
        with transaction.atomic():
            put_back_in_queues([job], now=submitted_at)
    return job


def make_samples(job: Job, *samples: Sequence[float | None], step_s: int = 60, attempt: int = 0) -> UsageSamples:
    """Add samples of the usage of an attempt: seconds since its start, CPU seconds, memory and disk in MB."""
    numbers = [
        number
        for at_s, *amounts in samples
        for number in (int(at_s or 0) * STEP_PARTS // step_s, *(_code(amount) for amount in amounts))
    ]
    return UsageSamples.objects.create(job=job, attempt=attempt, step_s=step_s, samples=numbers)


def _code(amount: float | None) -> int:
    return -1 if amount is None else round(CODES_OF_LOGARITHM * log1p(amount))


def make_bucket(
    *,
    owner: User,
    group: Group,
    begun_at: datetime,
    width: Width = Width.HOUR,
    site: Site | None = None,
    job_type: str = "User",
    **numbers: float,
) -> JobBucket:
    """Return a bucket of the accounting, whose levels were sampled once, and add it to the sums."""
    JobBucketPeriod.objects.get_or_create(width_s=width, begun_at=begun_at, defaults={"samples": 1})
    for grouping, key, of_type in (
        (Grouping.SITE, site.pk if site else 0, ""),
        (Grouping.USER, owner.pk, ""),
        (Grouping.GROUP, group.pk, ""),
        (Grouping.JOB_TYPE, 0, job_type),
    ):
        row, _ = JobBucketSum.objects.get_or_create(
            width_s=width, begun_at=begun_at, grouping=grouping, key=key, job_type=of_type
        )
        more = {name: F(name) + number for name, number in numbers.items()}
        JobBucketSum.objects.filter(pk=row.pk).update(**more)
    return JobBucket.objects.create(
        width_s=width, begun_at=begun_at, vo=group.vo, group=group, owner=owner, site=site, job_type=job_type, **numbers
    )
