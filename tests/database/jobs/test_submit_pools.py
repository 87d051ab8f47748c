"""Submit pools are kept as long as a job that may return to a queue refers to them (RFC7)."""

from datetime import timedelta

import pytest
from django.db import transaction

from resources.domain.enums import RequirementKind
from taskqueues.models import QueuedJob, SubmitPool, TaskQueue
from taskqueues.services import queueing
from tests.factories import NOW, make_job, make_queue, make_requirement_definition
from wms.jobs.domain.lifecycle import FINAL, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import rescheduling, unused_submit_pools

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(days=1)


@pytest.fixture
def job() -> Job:
    """Return a waiting job that requires memory."""
    make_requirement_definition(name="Memory", kind=RequirementKind.CAPACITY)
    make_queue(parameters={"Memory": 8000})
    job = make_job(requirements={"Memory": 4000})
    pool = SubmitPool.objects.get()
    Job.objects.filter(pk=job.pk).update(submit_pools=[pool.pk])
    with transaction.atomic():
        queueing.withdraw([job.pk])
    queueing.remove_empty(now=NOW)
    assert not TaskQueue.objects.exists()
    return job


@pytest.mark.parametrize("status", sorted(frozenset(JobStatus) - FINAL - {JobStatus.WAITING}))
def test_a_pool_stays_while_a_job_refers_to_it_that_may_come_back(status: JobStatus, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(status=status)
    assert unused_submit_pools.remove_unused(now=LATER) == 0
    assert SubmitPool.objects.get().last_used_at == LATER


@pytest.mark.parametrize("status", sorted(FINAL))
def test_a_pool_is_removed_when_its_jobs_have_ended(status: JobStatus, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(status=status, ended_at=NOW)
    assert unused_submit_pools.remove_unused(now=NOW + timedelta(minutes=59)) == 0
    assert unused_submit_pools.remove_unused(now=LATER) == 1
    assert not SubmitPool.objects.exists()


def test_a_rescheduled_job_makes_its_pool_anew(job: Job) -> None:
    before = SubmitPool.objects.get()
    Job.objects.filter(pk=job.pk).update(status=JobStatus.FAILED, ended_at=NOW)
    assert unused_submit_pools.remove_unused(now=LATER) == 1
    with transaction.atomic():
        rescheduled, refused = rescheduling.reschedule([job.pk], source="alice", now=LATER)
    assert (rescheduled, refused) == (frozenset({job.pk}), {})
    (again,) = SubmitPool.objects.all()
    assert (again.pk, again.last_used_at) == (before.pk, LATER)
    assert again.queues.count() == 1
    assert QueuedJob.objects.get(pk=job.pk).task_queue.submit_pools == [before.pk]


def test_an_unused_pool_does_not_keep_others_from_removal(job: Job) -> None:
    other = make_job(requirements={"Memory": 1000})
    with transaction.atomic():
        queueing.withdraw([other.pk])
    queueing.remove_empty(now=NOW)
    Job.objects.filter(pk=other.pk).update(status=JobStatus.DONE, ended_at=NOW)
    Job.objects.filter(pk=job.pk).update(status=JobStatus.RUNNING)
    assert unused_submit_pools.remove_unused(now=LATER) == 1
    assert SubmitPool.objects.get().requirements == {"memory": 4000}
