"""Samples of usage are few and small, also those of a database made by an earlier version (ADR 63)."""

from collections.abc import Sequence

import pytest
from django.db import connection

from tests.factories import make_job, make_samples
from tests.migrations import before_migration
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.domain.samples import Sample
from wms.jobs.models import Job, UsageSamples
from wms.jobs.queries import samples_of

pytestmark = pytest.mark.django_db(transaction=True)

MIGRATION = "0033_fewer_and_smaller_samples"
ROOM = "nan"


def store(job: Job, samples: Sequence[Sequence[float | None]], *, step_s: int, attempt: int = 0, room: int = 0) -> None:
    numbers = [number for sample in samples for number in sample]
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_usagesamples (job_id, attempt, step_s, samples) VALUES (%s, %s, %s, %s::real[])",
            [job.pk, attempt, step_s, [*map(str, numbers), *[ROOM] * (4 * room)]],
        )


def stored() -> dict[int, tuple[int, list[float]]]:
    """Return {job: (step, numbers)}, as the version before has them."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT job_id, step_s, samples FROM jobs_usagesamples")
        return {job_id: (step_s, numbers) for job_id, step_s, numbers in cursor.fetchall()}


def read(job: Job) -> list[tuple[int, list[Sample]]]:
    return [(row.step_s, row.taken) for row in samples_of(job)]


def sample(at_s: int, cpu_s: int | None, memory_mb: int | None, disk_mb: int | None) -> Sample:
    return Sample(at_s=at_s, cpu_s=cpu_s, memory_mb=memory_mb, disk_mb=disk_mb)


def test_samples_from_before_the_upgrade_are_the_first_of_longer_steps() -> None:
    short, long, empty = (make_job(status=JobStatus.DONE) for _ in range(3))
    with before_migration("jobs", MIGRATION):
        store(short, [(61, 60, 100, -1), (125, 120, 200, 5)], step_s=60, room=2)
        store(short, [(70, -1, -1, -1)], step_s=60, attempt=1)
        # A day and a half: a sample in each of 63 steps, each 100 s after its begin.
        store(long, [(3840 * step + 100, 3800 * step, 1000 + step, 7) for step in range(1, 34)], step_s=3840, room=31)
        store(empty, [], step_s=60)
    assert read(short) == [
        (60, [sample(61, 60, 100, None), sample(125, 120, 200, 5)]),
        (60, [sample(70, None, None, None)]),
    ]
    ((step_s, taken),) = read(long)
    assert step_s == 7680
    # The first of all is alone in its step.
    steps = [1, *range(2, 34, 2)]
    assert [each.at_s for each in taken] == [pytest.approx(3840 * step + 100, abs=8) for step in steps]
    assert [each.cpu_s for each in taken] == [pytest.approx(3800 * step, rel=0.001) for step in steps]
    assert [each.memory_mb for each in taken] == [1000 + step for step in steps]
    assert {each.disk_mb for each in taken} == {7}
    assert read(empty) == [(60, [])]


def test_an_attempt_that_runs_during_the_upgrade_goes_on() -> None:
    job = make_job(status=JobStatus.RUNNING)
    with before_migration("jobs", MIGRATION):
        store(job, [(60 * step, 50 * step, 100, 5) for step in range(1, 40)], step_s=60, room=25)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT wms_sample_usage(%s, 0::smallint, now(), now() + interval '2370 s', now() + interval '2410 s', "
            "2000, 110, 5)",
            [job.pk],
        )
    ((step_s, taken),) = read(job)
    assert step_s == 120
    assert [each.at_s for each in taken] == [60, *range(120, 2400, 120), 2410]
    assert taken[-1].memory_mb == 110


def test_the_way_back_keeps_the_samples() -> None:
    job = make_job(status=JobStatus.RUNNING)
    row = make_samples(job, (95, 80, None, 3), (120, 110, 500, 3), step_s=30)
    UsageSamples.objects.filter(job=job).update(samples=[*row.samples, *[-2] * 16])
    with before_migration("jobs", MIGRATION):
        assert stored() == {job.pk: (30, [95, 80, -1, 3, 120, 110, 500, 3])}
    assert read(job) == [(30, [sample(95, 80, None, 3), sample(120, 110, 500, 3)])]
