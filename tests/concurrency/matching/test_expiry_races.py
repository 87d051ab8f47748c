"""The expiry of leases concurrent with reports of pilots, on real connections (docs/architecture.md, Leases)."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from random import Random
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError, connection, transaction

from matching.models import Match
from matching.services import expiry, leases
from matching.services.leases import LeaseEndedError
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.models import Pilot
from pilots.services.reports import PilotRevokedError
from taskqueues.models import QueuedJob
from tests.factories import make_group, make_job, make_pilot
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobCommand, JobHistory
from wms.jobs.services import transitions
from wms.kernel.db import database_now
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = pytest.mark.django_db(transaction=True)


def leased(number: int = 1) -> list[Match]:
    group = make_group(shares_jobs=True)
    for _ in range(number):
        make_job(group=group)
    pilots = [make_pilot(vo=group.vo) for _ in range(number)]
    offer = OfferRequest(cpu_time_s=300_000)
    for pilot in pilots:
        match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return list(Match.objects.order_by("pilot"))


def while_it_waits(work: Callable[[], object]) -> "tuple[ThreadPoolExecutor, Future[object]]":
    """Start *work* on a connection of its own; return when it waits for a lock of this one."""

    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    pool = ThreadPoolExecutor(max_workers=1)
    future: Future[object] = pool.submit(run)
    until_somebody_waits_for_a_lock(or_done=future)
    return pool, future


BEAT = partial(leases.heartbeat, usage=Usage(cpu_s=5.0), tails=NO_TAILS, acknowledged=[])
FINISH = partial(leases.finish, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)


def test_a_heartbeat_during_the_stall_check_prevents_stalling() -> None:
    (lease,) = leased()
    Match.objects.update(
        reported_at=database_now() - timedelta(hours=1), expires_at=database_now() + timedelta(hours=1)
    )
    with transaction.atomic():
        # What a heartbeat does, in its order.
        Job.objects.select_for_update().get(pk=lease.job_id)
        Match.objects.filter(pk=lease.pk).update(reported_at=database_now())
        assert at_once([expiry.expire_leases]) == [0]
    assert Job.objects.get().status == JobStatus.MATCHED
    assert expiry.expire_leases() == 0
    assert Job.objects.get().status == JobStatus.MATCHED


def test_a_heartbeat_during_the_end_of_its_lease_does_not_change_the_job() -> None:
    (lease,) = leased()
    beat = partial(leases.heartbeat, lease.pk, usage=Usage(cpu_s=5.0), tails=Tails("of the past"), acknowledged=[])
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=lease.job_id)
        pool, beating = while_it_waits(beat)
        Match.objects.filter(pk=lease.pk).update(ended_at=database_now(), end_reason="expired")
    with pytest.raises(LeaseEndedError):
        beating.result(timeout=within(60))
    pool.shutdown()
    job = Job.objects.get()
    assert (job.cpu_s, job.std_output_tail, job.heartbeat_at) == (None, "", None)


@pytest.mark.parametrize(
    "report",
    [
        partial(leases.report_status, status=JobStatus.RUNNING),
        partial(
            leases.finish,
            exit_code=1,
            minor=None,
            usage=Usage(cpu_s=5.0),
            output_sandbox=None,
            tails=Tails("of the past"),
        ),
    ],
    ids=["status", "end"],
)
def test_a_report_that_comes_while_its_lease_is_ended_leaves_nothing_of_it_in_the_job(
    report: Callable[[UUID], object],
) -> None:
    (lease,) = leased()
    before = Job.objects.values().get()
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=lease.job_id)
        pool, reporting = while_it_waits(partial(report, lease.pk))
        Match.objects.filter(pk=lease.pk).update(ended_at=database_now(), end_reason="expired")
    with pytest.raises(LeaseEndedError):
        reporting.result(timeout=within(60))
    pool.shutdown()
    assert before == Job.objects.values().get()
    assert Job.objects.get().history.count() == 1


def test_an_end_that_comes_while_its_job_is_killed_keeps_the_job_killed() -> None:
    (lease,) = leased()
    finish = partial(leases.finish, lease.pk, exit_code=1, minor=None, usage=Usage(cpu_s=5.0), output_sandbox=None)
    with transaction.atomic():
        transitions.move(lease.job_id, status=JobStatus.KILLED, source="alice", now=database_now())
        pool, finishing = while_it_waits(finish)
    assert finishing.result(timeout=within(60)) == JobStatus.KILLED
    pool.shutdown()
    job = Job.objects.get()
    assert (job.status, job.exit_code, job.cpu_s) == (JobStatus.KILLED, 1, 5.0)
    assert Match.objects.get().end_reason == "finished"


def test_an_end_that_comes_while_its_job_is_rescheduled_puts_it_back_into_its_queue() -> None:
    (lease,) = leased()
    finish = partial(leases.finish, lease.pk, exit_code=0, minor=None, usage=Usage(cpu_s=5.0), output_sandbox=None)
    with transaction.atomic():
        transitions.move(lease.job_id, status=JobStatus.RESCHEDULED, source="alice", now=database_now())
        pool, finishing = while_it_waits(finish)
    assert finishing.result(timeout=within(60)) == JobStatus.WAITING
    pool.shutdown()
    assert QueuedJob.objects.filter(pk=lease.job_id).exists()
    assert Match.objects.get().end_reason == "finished"


def test_a_heartbeat_during_the_expiry_check_keeps_the_lease() -> None:
    """The expirer does not wait for it, and ends the other lease."""
    renewed, other = leased(2)
    Match.objects.update(expires_at=database_now() - timedelta(hours=1))
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=renewed.job_id)
        Match.objects.filter(pk=renewed.pk).update(expires_at=database_now() + timedelta(hours=1))
        assert at_once([expiry.expire_leases]) == [1]
    assert expiry.expire_leases() == 0
    assert Match.objects.get(ended_at__isnull=True) == renewed
    assert Job.objects.get(pk=other.job_id).status == JobStatus.WAITING


@pytest.mark.parametrize("report", [BEAT, FINISH], ids=["heartbeat", "end"])
def test_a_lease_that_is_reported_on_after_the_expirer_has_listed_it_is_not_ended(
    report: Callable[[UUID], object],
) -> None:
    reported, other = leased(2)
    Match.objects.update(expires_at=database_now() - timedelta(hours=1))
    listed = expiry.over(now=database_now())
    report(reported.pk)
    assert expiry.end_those_still_over(listed, memo={}) == 1
    assert Match.objects.get(end_reason="expired") == other
    assert Job.objects.get(pk=reported.job_id).reschedules == 0


def test_a_heartbeat_that_waits_while_its_lease_ends_is_refused_and_changes_nothing() -> None:
    """It waits for the job with no lock on the lease, or the other could not end that."""
    (lease,) = leased()
    with transaction.atomic():
        Job.objects.select_for_update().get(pk=lease.job_id)
        beat = partial(leases.heartbeat, lease.pk, usage=Usage(cpu_s=1.0), tails=Tails("x"), acknowledged=[])
        pool, beating = while_it_waits(beat)
        Match.objects.update(ended_at=database_now(), end_reason="expired")
    with pytest.raises(LeaseEndedError):
        beating.result(timeout=within(60))
    pool.shutdown()
    job = Job.objects.get()
    assert (job.heartbeat_at, job.cpu_s, job.std_output_tail) == (None, None, "")


def test_a_report_that_waits_while_its_pilot_is_revoked_is_refused_and_changes_nothing() -> None:
    (lease,) = leased()
    Pilot.objects.update(last_seen_at=database_now() - timedelta(hours=1))
    finish = partial(leases.finish, lease.pk, exit_code=0, minor=None, usage=Usage(cpu_s=5.0), output_sandbox=None)
    with transaction.atomic():
        Pilot.objects.update(revoked_at=database_now())
        pool, finishing = while_it_waits(finish)
    with pytest.raises(PilotRevokedError):
        finishing.result(timeout=within(60))
    pool.shutdown()
    assert Job.objects.get().status == JobStatus.MATCHED
    assert Match.objects.get().ended_at is None


def test_a_repeated_status_report_revives_a_job_that_becomes_stalled_meanwhile() -> None:
    (lease,) = leased()
    leases.report_status(lease.pk, status=JobStatus.RUNNING)
    with transaction.atomic():
        transitions.record([lease.job_id], status=JobStatus.STALLED, minor="", source="test", now=database_now())
        pool, reporting = while_it_waits(partial(leases.report_status, lease.pk, status=JobStatus.RUNNING))
    reporting.result(timeout=within(60))
    pool.shutdown()
    assert Job.objects.get().status == JobStatus.RUNNING


def test_a_kill_during_the_end_of_a_lease_is_executed() -> None:
    (lease,) = leased()
    Match.objects.update(expires_at=database_now() - timedelta(hours=1))
    with transaction.atomic():
        transitions.move(lease.job_id, status=JobStatus.KILLED, source="alice", now=database_now())
        assert at_once([expiry.expire_leases]) == [0]
    assert expiry.expire_leases() == 1
    assert Job.objects.get().status == JobStatus.KILLED
    assert not QueuedJob.objects.exists()


@contextmanager
def blocked_in_its_second_transaction(held: Sequence[Match]) -> Iterator["Future[object]"]:
    """Run the expirer, which waits for a command to the last job until the end of the block."""
    JobCommand.objects.create(job_id=held[-1].job_id, name="peek", created_at=database_now())
    with transaction.atomic():
        JobCommand.objects.select_for_update().get()
        pool, expiring = while_it_waits(expiry.expire_leases)
        yield expiring
    pool.shutdown()


@pytest.fixture
def half_expired(monkeypatch: pytest.MonkeyPatch) -> list[Match]:
    """Return leases that have all expired; the expirer ends them in two transactions."""
    held = leased(6)
    Match.objects.update(expires_at=database_now() - timedelta(hours=1))
    monkeypatch.setattr(expiry, "ENDED_TOGETHER", 3)
    return held


def test_a_second_run_of_the_expirer_does_nothing_while_the_first_one_works(half_expired: list[Match]) -> None:
    with blocked_in_its_second_transaction(half_expired) as expiring:
        assert at_once([expiry.expire_leases] * 2) == [0, 0]
    assert expiring.result(timeout=within(60)) == 6


def test_an_expirer_that_dies_in_the_middle_loses_nothing_and_doubles_nothing(half_expired: list[Match]) -> None:
    with blocked_in_its_second_transaction(half_expired) as expiring:
        assert Match.objects.filter(end_reason="expired").count() == 3
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        with pytest.raises(OperationalError):
            expiring.result(timeout=within(60))
    assert Match.objects.filter(end_reason="expired").count() == 3
    assert expiry.expire_leases() == 3
    assert Job.objects.filter(status=JobStatus.WAITING, reschedules=1).count() == QueuedJob.objects.count() == 6
    assert JobHistory.objects.filter(status=JobStatus.WAITING).count() == 6


def test_four_expirers_end_each_lease_once_beside_its_pilots_last_report() -> None:
    """Each of 30 jobs is either finished by its pilot or comes back once; never both."""
    held = leased(30)
    Match.objects.update(expires_at=database_now() - timedelta(hours=1))

    def finish(mine: list[Match]) -> int:
        finished = 0
        for lease in mine:
            try:
                leases.finish(lease.pk, exit_code=0, minor=None, usage=Usage(), output_sandbox=None)
                finished += 1
            except LeaseEndedError:
                continue
        return finished

    works: list[Callable[[], int]] = [expiry.expire_leases] * 4
    works += [partial(finish, held[n::3]) for n in range(3)]
    answers = at_once(works)

    assert sum(answers) == 30
    assert Job.objects.filter(status=JobStatus.DONE).count() == sum(answers[4:])
    assert Job.objects.filter(status=JobStatus.WAITING, reschedules=1).count() == sum(answers[:4])
    assert QueuedJob.objects.count() == sum(answers[:4])
    assert not Match.objects.filter(ended_at__isnull=True).exists()
