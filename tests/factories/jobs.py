"""Submissions and jobs."""

from datetime import datetime

from django.db import transaction

from resources.models import Queue, Site
from tests.factories.accounts import make_group, member
from tests.factories.names import NOW
from wms.accounts.models import Group, User
from wms.jobs.domain.description import as_json
from wms.jobs.domain.description import parse as parse_description
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job, Submission
from wms.jobs.services.enqueueing import put_back_in_queues


def make_submission(*, owner: User | None = None, group: Group | None = None) -> Submission:
    group = group or make_group()
    return Submission.objects.create(owner=member(owner, group), group=group, submitted_at=NOW, body_digest=bytes(32))


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
        submission=submission or make_submission(owner=owner, group=group),
        owner=owner,
        group=group,
        vo=group.vo,
        status=status,
        job_name=wanted.job_name,
        job_group=wanted.job_group,
        job_type=wanted.job_type,
        priority=wanted.priority,
        description={**as_json(wanted), "setup": wanted.setup or group.vo.setup},
        submit_pools=list(wanted.submit_pools),
        reschedules=reschedules,
        site=site,
        queue=queue,
        pilot_id=pilot_id,
        std_output_tail=std_output_tail,
        submitted_at=submitted_at,
        status_changed_at=submitted_at,
        ended_at=submitted_at if status in FINAL else None,
    )
    if status is JobStatus.WAITING:
        with transaction.atomic():
            put_back_in_queues([job], now=submitted_at)
    return job
