"""Jobs that return to their task queue."""

from datetime import timedelta

import pytest
from django.conf import LazySettings

from taskqueues.models import QueuedJob, SubmitPool
from tests import factories
from tests.factories import NOW, submit
from wms.jobs.domain.lifecycle import LEASED, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobCommand, JobHistory
from wms.jobs.services import rescheduling

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(minutes=1)


@pytest.mark.parametrize("status", sorted(LEASED))
def test_a_job_whose_lease_ends_without_a_result_waits_again(status: JobStatus) -> None:
    job = factories.make_job(status=status, reschedules=1, pilot_id=7)
    Job.objects.filter(pk=job.pk).update(ce=factories.make_ce())
    after = rescheduling.reschedule_or_fail({job.pk: "lease expired"}, source="expirer", now=LATER)[job.pk]

    job.refresh_from_db()
    assert after == job.status == "Waiting"
    assert (job.reschedules, job.minor_status, job.pilot_id, job.ce) == (2, "lease expired", None, None)
    assert QueuedJob.objects.get().job_id == job.pk
    assert list(JobHistory.objects.order_by("pk").values_list("status", flat=True)) == ["Rescheduled", "Waiting"]


@pytest.mark.parametrize("status", sorted(LEASED))
def test_a_job_that_came_back_too_often_fails(status: JobStatus, settings: LazySettings) -> None:
    job = factories.make_job(status=status, reschedules=settings.WMS_MAX_RESCHEDULES)
    after = rescheduling.reschedule_or_fail({job.pk: "x" * 255}, source="expirer", now=LATER)[job.pk]

    job.refresh_from_db()
    assert after == job.status == "Failed"
    assert job.ended_at == LATER
    assert not QueuedJob.objects.exists()


def test_a_job_that_was_rescheduled_meanwhile_is_not_counted_twice(settings: LazySettings) -> None:
    job = factories.make_job(status=JobStatus.RESCHEDULED, reschedules=settings.WMS_MAX_RESCHEDULES)
    after = rescheduling.reschedule_or_fail({job.pk: "lease expired"}, source="expirer", now=LATER)[job.pk]

    job.refresh_from_db()
    assert after == job.status == "Waiting"
    assert job.reschedules == settings.WMS_MAX_RESCHEDULES


@pytest.mark.parametrize("status", [JobStatus.KILLED, JobStatus.DONE, JobStatus.FAILED, JobStatus.DELETED])
def test_a_job_that_ended_meanwhile_stays_as_it_is(status: JobStatus) -> None:
    job = factories.make_job(status=status)

    assert rescheduling.reschedule_or_fail({job.pk: "x"}, source="expirer", now=LATER)[job.pk] is status
    job.refresh_from_db()
    assert job.status == status
    assert not JobHistory.objects.exists()


def test_only_rescheduled_jobs_are_queued_again() -> None:
    submission = factories.make_submission()
    jobs = {
        status: factories.make_job(submission=submission, status=status)
        for status in JobStatus
        if status is not JobStatus.WAITING
    }
    queued = rescheduling.requeue([job.pk for job in jobs.values()], source="x", now=LATER)

    assert queued == {jobs[JobStatus.RESCHEDULED].pk}
    assert list(QueuedJob.objects.values_list("pk", flat=True)) == [jobs[JobStatus.RESCHEDULED].pk]


def test_a_command_to_the_last_pilot_is_not_sent_to_the_next() -> None:
    job = factories.make_job(status=JobStatus.RUNNING)
    rescheduling.reschedule([job.pk], source="alice", now=NOW)
    JobCommand.objects.create(job=job, name="peek", created_at=NOW, acknowledged_at=NOW)
    assert JobCommand.objects.filter(name="kill", acknowledged_at=None).exists()
    rescheduling.requeue([job.pk], source="pilot 7", now=LATER)

    assert list(JobCommand.objects.values_list("name", flat=True)) == ["peek"]


def test_a_submit_pool_that_was_removed_is_made_again() -> None:
    vo = factories.make_vo()
    group = factories.make_group(vo=vo)
    owner = factories.make_user(groups=[group])
    factories.make_queue(ce=factories.make_ce(site=factories.make_site(parameters={"Memory": 4000})))
    body = {"executable": "a", "requirements": {"Memory": 4000}}
    submit(parse_submission(body), owner=owner, now=NOW)
    pool = SubmitPool.objects.get()
    QueuedJob.objects.all().delete()
    Job.objects.update(status=JobStatus.RESCHEDULED)
    SubmitPool.objects.all().delete()
    rescheduling.requeue(Job.objects.values_list("pk", flat=True), source="x", now=LATER)

    assert SubmitPool.objects.get().pk == pool.pk
    assert SubmitPool.objects.get().queues.count() == 1
    assert QueuedJob.objects.get().task_queue.submit_pools == [pool.pk]


def test_a_job_keeps_the_setup_that_was_the_default_when_it_was_submitted() -> None:
    vo = factories.make_vo(setup="Production", setups=["Devel"])
    group = factories.make_group(vo=vo)
    submit(parse_submission({"executable": "a"}), owner=factories.make_user(groups=[group]), now=NOW)
    vo.setup = "Devel"
    vo.save()
    QueuedJob.objects.all().delete()
    Job.objects.update(status=JobStatus.RESCHEDULED)
    rescheduling.requeue(Job.objects.values_list("pk", flat=True), source="x", now=LATER)

    assert QueuedJob.objects.get().task_queue.setup == "Production"
