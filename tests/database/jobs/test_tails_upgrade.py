"""The last lines of outputs are those of attempts, also those of a database made by an earlier version (ADR 63)."""

import pytest
from django.db import connection

from tests.factories import make_job
from tests.migrations import before_migration
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, OutputTail
from wms.jobs.queries import outputs_of
from wms.kernel.fields import compressed

pytestmark = pytest.mark.django_db(transaction=True)


def stored() -> dict[int, bytes]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, text FROM jobs_outputtail")
        return {job_id: bytes(text) for job_id, text in cursor.fetchall()}


def store(job: Job, text: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO jobs_outputtail (job_id, text) VALUES (%s, %s)", [job.pk, compressed(text)])


def test_lines_from_before_the_upgrade_are_those_of_the_present_attempt() -> None:
    running = make_job(status=JobStatus.RUNNING)
    third = make_job(status=JobStatus.FAILED, reschedules=2)
    leaving = make_job(status=JobStatus.RESCHEDULED, reschedules=1)
    silent = make_job(status=JobStatus.DONE, reschedules=1)
    with before_migration("jobs", "0027_tails_of_attempts"):
        for job, text in ((running, "one"), (third, "three"), (leaving, "last")):
            store(job, text)
    tails = OutputTail.objects.order_by("job").values_list("job", "attempt", "std_output", "std_error")
    assert list(tails) == [(running.pk, 0, "one", None), (third.pk, 2, "three", None), (leaving.pk, 0, "last", None)]
    jobs = [Job.objects.get(pk=job.pk) for job in (running, third, leaving, silent)]
    assert [job.std_output_tail for job in jobs] == ["one", "three", "last", ""]


def test_the_way_back_keeps_the_output_of_the_present_attempt() -> None:
    third = make_job(status=JobStatus.FAILED, reschedules=2, std_output_tail="three", std_error_tail="lost")
    OutputTail.objects.create(job=third, attempt=0, std_output="lost")
    waiting = make_job(reschedules=1)
    OutputTail.objects.create(job=waiting, attempt=0, std_output="lost")
    leaving = make_job(status=JobStatus.RESCHEDULED, reschedules=1, std_output_tail="last")
    make_job(status=JobStatus.FAILED, std_error_tail="lost")
    with before_migration("jobs", "0027_tails_of_attempts"):
        assert stored() == {third.pk: compressed("three"), leaving.pk: compressed("last")}
    kept = [(tail.attempt, tail.std_output) for job in (third, waiting, leaving) for tail in outputs_of(job)]
    assert kept == [(2, "three"), (0, "last")]
