"""Running jobs: each on a pilot of its own, with an open lease."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from uuid import uuid4

from django.conf import settings
from django.db import connection, transaction

from matching.models import Match
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from resources.models import Queue
from tests.benchmarks.workloads.loaded import LoadedWorkload
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory

_AT_ONCE = 5000


def hold(loaded: LoadedWorkload, *, jobs: int, at_queues: int | None = None) -> None:
    """Add this many running jobs, of the same kinds as the waiting ones, at the first so many batch queues, or all."""
    now = datetime.now(tz=UTC)
    models = list(Job.objects.order_by("pk")[: min(jobs, _AT_ONCE)])
    queues = cycle(Queue.objects.select_related("ce").order_by("pk")[:at_queues])
    for start in range(0, jobs, _AT_ONCE):
        with transaction.atomic():
            _hold(loaded, islice(cycle(models), min(_AT_ONCE, jobs - start)), queues, now=now)
    if jobs:
        with connection.cursor() as cursor:
            cursor.execute("VACUUM (ANALYZE)")


def _hold(loaded: LoadedWorkload, models: Iterable[Job], queues: "cycle[Queue]", *, now: datetime) -> None:
    of_jobs = list(models)
    pilots = Pilot.objects.bulk_create(
        Pilot(
            vo=loaded.vo,
            queue=next(queues),
            status=PilotStatus.RUNNING,
            submitted_at=now,
            started_at=now,
            last_seen_at=now,
            matched_at=now,
        )
        for _ in of_jobs
    )
    jobs = Job.objects.bulk_create(
        _running(model, pilot, now=now) for model, pilot in zip(of_jobs, pilots, strict=True)
    )
    JobHistory.objects.bulk_create(
        JobHistory(job=job, changed_at=now, status=job.status, source=f"pilot {job.pilot_id}") for job in jobs
    )
    Match.objects.bulk_create(
        Match(
            job=job,
            pilot=pilot,
            request_id=uuid4(),
            queue=pilot.queue,
            leased_at=now,
            expires_at=now + timedelta(seconds=settings.WMS_LEASE_S),
            reported_at=now,
            reported_status=JobStatus.RUNNING,
        )
        for job, pilot in zip(jobs, pilots, strict=True)
    )


def _running(model: Job, pilot: Pilot, *, now: datetime) -> Job:
    assert pilot.queue is not None
    return Job(
        submission_id=model.submission_id,
        owner_id=model.owner_id,
        group_id=model.group_id,
        vo_id=model.vo_id,
        status=JobStatus.RUNNING,
        job_name=model.job_name,
        job_type=model.job_type,
        priority=model.priority,
        stored_description_id=model.stored_description_id,
        site_id=pilot.queue.ce.site_id,
        queue=pilot.queue,
        pilot_id=pilot.pk,
        submitted_at=model.submitted_at,
        status_changed_at=now,
        matched_at=now,
        started_at=now,
        heartbeat_at=now,
    )
