"""What reports on leases leave of each attempt: last lines of output and samples of the usage (ADR 63)."""

from collections.abc import Sequence
from dataclasses import astuple
from random import Random
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from matching.models import Match
from matching.services import expiry, leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from tests.cases import examples
from tests.clock import pass_time, stop_clock
from tests.factories import make_job, make_pilot
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.samples import samples_of as samples_as_stored
from wms.jobs.models import Job, JobCommand, UsageSamples
from wms.jobs.queries import outputs_of, samples_of, with_surroundings
from wms.jobs.services import control
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock")]

#: Up to the CPU seconds of twenty cores in a year.
AMOUNTS = [None, 0.0, 0.4, 1.0, 1700.0, 129_600.0, 20 * 31_536_000.0]
#: As in sql/attempts.sql.
FIRST_STEP_S, FIRST_NUMBER, MOST_SAMPLES = 30, 3, 24


@pytest.fixture
def job() -> Job:
    stop_clock()
    expiry.expire_leases()
    return make_job()


def run(job: Job) -> Match:
    """Lease the job to another pilot, which starts its payload."""
    pass_time(hours=1)  # a job that was given back waits for a while
    offer = OfferRequest(cpu_time_s=300_000)
    (lease,) = match(offer, request_id=uuid4(), pilot_id=make_pilot(vo=job.vo).pk, max_jobs=1, chance=Random(1))
    leases.report_status(lease.match_id, status=JobStatus.RUNNING)
    return Match.objects.get(pk=lease.match_id)


def beat(lease: Match, *acknowledged: int, output: str | None = None, error: str | None = None) -> None:
    leases.heartbeat(lease.pk, usage=Usage(), tails=Tails(output, error), acknowledged=acknowledged)


def finish(lease: Match, exit_code: int | None, tails: Tails = NO_TAILS) -> JobStatus:
    return leases.finish(lease.pk, exit_code=exit_code, minor=None, usage=Usage(), output_sandbox=None, tails=tails)


def tails(job: Job) -> list[tuple[int, str | None, str | None]]:
    return [(tail.attempt, tail.std_output, tail.std_error) for tail in outputs_of(Job.objects.get(pk=job.pk))]


def present(job: Job) -> tuple[str, str]:
    job = Job.objects.get(pk=job.pk)
    return job.std_output_tail, job.std_error_tail


# ---- Last lines ------------------------------------------------------------------------------------------------------


def test_a_payload_that_fails_at_once_leaves_its_last_lines(job: Job) -> None:
    assert finish(run(job), 2, Tails("begun\n", "no such file\n")) is JobStatus.FAILED
    assert present(job) == ("begun\n", "no such file\n")


def test_lines_that_are_not_sent_stay(job: Job) -> None:
    lease = run(job)
    beat(lease, output="one", error="warning")
    beat(lease, output="two")
    beat(lease, error="")
    assert present(job) == ("two", "")
    finish(lease, 0, Tails(std_error="at last"))
    assert present(job) == ("two", "at last")


def test_a_job_whose_pilot_sends_no_lines_has_no_row(job: Job) -> None:
    lease = run(job)
    beat(lease)
    finish(lease, 0)
    assert (tails(job), present(job)) == ([], ("", ""))


def test_an_attempt_that_is_given_back_by_its_report_stays_readable(job: Job) -> None:
    assert finish(run(job), 222, Tails("first", "no room")) is JobStatus.WAITING
    assert present(job) == ("", "")
    beat(run(job), output="second")
    assert present(job) == ("second", "")
    assert tails(job) == [(0, "first", "no room"), (1, "second", None)]


def test_an_attempt_whose_lease_expires_stays_readable(job: Job) -> None:
    beat(run(job), output="first")
    for _ in range(240):
        pass_time(seconds=10)
        expiry.expire_leases()
    assert Job.objects.get(pk=job.pk).status == JobStatus.WAITING
    finish(run(job), 1, Tails(std_error="second"))
    assert tails(job) == [(0, "first", None), (1, None, "second")]


def test_an_attempt_ended_by_a_user_stores_later_lines_of_its_pilot(job: Job) -> None:
    lease = run(job)
    beat(lease, output="first")
    control.apply_to_one(Action.RESCHEDULE, job.pk, by=job.owner, now=timezone.now())
    assert present(job) == ("first", "")
    beat(lease, error="terminated")
    assert present(job) == ("first", "terminated")
    beat(lease, JobCommand.objects.get().pk, output="first, to its end")
    assert Job.objects.get(pk=job.pk).status == JobStatus.WAITING
    assert present(job) == ("", "")
    beat(run(job), output="second")
    assert tails(job) == [(0, "first, to its end", "terminated"), (1, "second", None)]


def test_a_killed_job_has_the_lines_of_its_end(job: Job) -> None:
    lease = run(job)
    control.apply_to_one(Action.KILL, job.pk, by=job.owner, now=timezone.now())
    beat(lease, JobCommand.objects.get().pk, output="stopping")
    finish(lease, 143, Tails(std_error="stopped"))
    assert tails(job) == [(0, "stopping", "stopped")]


def test_a_late_report_adds_no_lines(job: Job) -> None:
    lease = run(job)
    finish(lease, 222, Tails("first"))
    with pytest.raises(leases.LeaseEndedError):
        beat(lease, output="late")
    assert finish(lease, 1, Tails("late")) is JobStatus.WAITING
    assert tails(job) == [(0, "first", None)]


def test_the_lines_of_all_attempts_of_jobs_are_one_query(
    job: Job, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    finish(run(job), 222, Tails("first"))
    make_job(status=JobStatus.DONE, std_output_tail="another")
    with django_assert_num_queries(2):
        found = list(with_surroundings(Job.objects.order_by("pk")))
        read = [([tail.std_output for tail in outputs_of(each)], each.std_output_tail) for each in found]
    assert read == [(["first"], ""), (["another"], "another")]


# ---- Samples ---------------------------------------------------------------------------------------------------------


def samples(job: Job) -> list[list[tuple[float | None, ...]]]:
    """Return the samples of each attempt."""
    return [[astuple(sample) for sample in row.taken] for row in samples_of(job)]


def test_the_first_heartbeat_of_each_half_minute_is_a_sample_after_some(job: Job) -> None:
    lease = run(job)
    for number in range(1, 14):
        pass_time(seconds=13)
        usage = Usage(cpu_s=12.9 * number, wall_s=13.0 * number, memory_mb=1000.0 + number, disk_mb=5e-324)
        # By the statement and by the services.
        acknowledged = [10**9] if number % 2 else []
        leases.heartbeat(lease.pk, usage=usage, tails=NO_TAILS, acknowledged=acknowledged)
    assert samples(job) == [[(91, 90, 1007, 0), (130, 129, 1010, 0), (156, 155, 1012, 0)]]
    assert UsageSamples.objects.get().step_s == FIRST_STEP_S


def test_unmeasured_usage_is_null_and_stored_by_attempt(job: Job) -> None:
    for _ in range(2):
        lease = run(job)
        pass_time(seconds=100)
        beat(lease)
        finish(lease, 222)
    assert samples(job) == [[(100, None, None, None)]] * 2


def test_a_payload_that_has_not_begun_has_no_samples(job: Job) -> None:
    lease = run(job)
    Job.objects.update(started_at=None)
    pass_time(seconds=100)
    beat(lease)
    assert samples(job) == []


def sample(job: Job, *, at_s: float, reported_at_s: float | None) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT wms_sample_usage(
                %s, 0::smallint, timestamptz '2026-01-01', timestamptz '2026-01-01' + make_interval(secs => %s),
                timestamptz '2026-01-01' + make_interval(secs => %s), %s, 2.0, 3.0
            )
            """,
            [job.pk, reported_at_s, at_s, at_s / 2],
        )
        (was_due,) = cursor.fetchone()
        return bool(was_due)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(pauses_s=st.lists(st.sampled_from([0.5, 29.9, 30.0, 31.0, 61.0, 600.0, 5000.0, 90_000.0]), max_size=300))
@example(pauses_s=[0.5, 600.0, 30.0, 29.9, 30.0, 29.9, 29.9, 30.0, 29.9, 29.9])  # 840 s; the sum of floats is less
def test_samples_are_few_even_and_those_of_heartbeats(job: Job, pauses_s: Sequence[float]) -> None:
    at_s, before_s = 0.0, None
    reported = []
    with transaction.atomic():
        for pause_s in pauses_s:
            at_s = round(at_s + pause_s, 1)  # the database rounds to microseconds
            sample(job, at_s=at_s, reported_at_s=before_s)
            before_s = at_s
            reported.append(int(at_s))
        rows = list(UsageSamples.objects.all())
        taken = [number for (each,) in [samples(job)] for number in each] if rows else []
        transaction.set_rollback(True)
    due: dict[int, int] = {}
    for time in reported:
        due.setdefault(time // FIRST_STEP_S, time)
    expected = [time for number, time in due.items() if number >= FIRST_NUMBER]
    if not expected:
        assert not rows
        return
    (row,) = rows
    # The step is no longer than it must be.
    step_s = FIRST_STEP_S
    while expected[-1] >= MOST_SAMPLES * step_s:
        step_s *= 2
    assert row.step_s == step_s
    # One of each step, of its first heartbeat; of the first steps of all none, as their heartbeats are no news.
    firsts: dict[int, int] = {}
    for time in expected:
        firsts.setdefault(time // step_s, time)
    assert len(taken) == len(firsts) <= MOST_SAMPLES
    for (at, cpu_s, memory_mb, disk_mb), time in zip(taken, firsts.values(), strict=True):
        assert at == pytest.approx(time, abs=step_s / 1024 if step_s > 1024 else 0)
        assert cpu_s == pytest.approx(time / 2, rel=0.001, abs=1)
        assert (memory_mb, disk_mb) == (2, 3)


@pytest.mark.parametrize(("beats", "most_bytes"), [(6, 72), (120, 216), (4_320, 216)])
def test_samples_take_few_bytes_however_long_the_job_runs(job: Job, beats: int, most_bytes: int) -> None:
    largest = written = 0
    for beat_number in range(1, beats + 1):
        if sample(job, at_s=30.0 * beat_number, reported_at_s=30.0 * (beat_number - 1)):
            written += 1
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_column_size(samples) FROM jobs_usagesamples")
                largest = max(largest, *cursor.fetchone())
    (taken,) = samples(job)
    assert beats // 2 <= len(taken) if beats < MOST_SAMPLES else MOST_SAMPLES / 2 <= len(taken) <= MOST_SAMPLES
    assert largest <= most_bytes
    # The longer it runs, the rarer they are.
    assert written <= {6: 4, 120: 50, 4_320: 110}[beats]


def test_usage_of_many_cores_for_a_year_is_stored_within_a_thousandth(job: Job) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT wms_code_of_amount(amount) FROM unnest(%s::float8[]) AS its (amount)", [AMOUNTS])
        codes = [code for (code,) in cursor.fetchall()]
    stored = samples_as_stored([number for code in codes for number in (0, code, code, code)], step_s=30)
    assert [sample.cpu_s for sample in stored] == [
        None if amount is None else pytest.approx(amount, rel=0.001, abs=0.5) for amount in AMOUNTS
    ]
    assert max(codes) <= 32_767


def test_a_clock_that_is_set_back_adds_no_sample_twice(job: Job) -> None:
    assert sample(job, at_s=130.0, reported_at_s=100.0)
    assert not sample(job, at_s=95.0, reported_at_s=130.0)
    assert not sample(job, at_s=140.0, reported_at_s=95.0)
    assert sample(job, at_s=190.0, reported_at_s=140.0)
    assert [time for (each,) in [samples(job)] for time, *_ in each] == [130, 190]


@pytest.mark.parametrize(("at_s", "reported_at_s"), [(-100.0, -200.0), (50.0, -200.0), (89.9, None), (200.0, 190.0)])
def test_no_sample_is_due(job: Job, at_s: float, reported_at_s: float | None) -> None:
    assert not sample(job, at_s=at_s, reported_at_s=reported_at_s)
    assert not UsageSamples.objects.exists()
