"""Leases: reports, heartbeats and ends, and the status of the job (docs/architecture.md, Leases)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from uuid import uuid4

import pytest
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from matching.models import Match
from matching.services import expiry, leases
from matching.services.leases import LeaseEndedError, LeaseRenewal
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.reports import PilotRevokedError
from taskqueues.models import QueuedJob
from tests.clock import pass_time, reset_clock, stop_clock
from tests.factories import NOW, make_group, make_job, make_pilot
from wms.jobs.domain.causes import KEY_LENGTH, LOST_OUTPUT
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.filters import JobFilterSet
from wms.jobs.models import Job
from wms.jobs.services import control
from wms.jobs.services.transitions import IllegalTransitionError
from wms.wire.protocol import NO_TAILS, Tails, Usage

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def clock() -> Iterator[None]:
    """Run the expirer once, as in a system that has been running, and set the clock back afterwards."""
    expiry.expire_leases()
    yield
    reset_clock()


def live_through(*, seconds: int) -> int:
    """Advance the clock while the expirer runs regularly; return the number of leases that it ended."""
    ended = 0
    for _ in range(0, seconds, 10):
        pass_time(seconds=10)
        ended += expiry.expire_leases()
    return ended


@dataclass
class Holder:
    """A pilot with a lease, and short names for its reports."""

    match: Match

    @property
    def job(self) -> Job:
        return Job.objects.get(pk=self.match.job_id)

    @property
    def statuses(self) -> list[str]:
        return list(self.job.history.order_by("pk").values_list("status", flat=True))

    def status(self, status: JobStatus, *, minor: str | None = None, application: str | None = None) -> LeaseRenewal:
        return leases.report_status(self.match.pk, status=status, minor=minor, application=application)

    def beat(self, *acknowledged: int, tails: Tails = NO_TAILS, **usage: float) -> LeaseRenewal:
        return leases.heartbeat(self.match.pk, usage=Usage(**usage), tails=tails, acknowledged=acknowledged)

    def finish(self, exit_code: int | None, minor: str | None = None, **usage: float) -> JobStatus:
        return leases.finish(self.match.pk, exit_code=exit_code, minor=minor, usage=Usage(**usage), output_sandbox=None)

    def asks(self, action: Action) -> None:
        control.apply_to_one(action, self.match.job_id, by=self.job.owner, now=timezone.now())


@pytest.fixture
def holder() -> Holder:
    job = make_job(group=make_group())
    return lease_to(make_pilot(vo=job.vo))


def lease_to(pilot: Pilot) -> Holder:
    offer = OfferRequest(cpu_time_s=300_000)
    (lease,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return Holder(Match.objects.get(pk=lease.match_id))


def test_a_job_runs_to_its_end(holder: Holder) -> None:
    holder.status(JobStatus.RUNNING, minor="Started")
    holder.beat(cpu_s=5.0, wall_s=6.0, memory_mb=100.0, disk_mb=1.0, tails=Tails("hello"))
    holder.status(JobStatus.COMPLETING)
    assert holder.finish(0, cpu_s=9.0, wall_s=10.0, memory_mb=50.0) is JobStatus.DONE
    job = holder.job
    assert holder.statuses == ["Matched", "Running", "Completing", "Done"]
    assert (job.exit_code, job.cpu_s, job.wall_s, job.max_memory_mb, job.max_disk_mb) == (0, 9.0, 10.0, 100.0, 1.0)
    assert job.std_output_tail == "hello"
    assert Match.objects.get().end_reason == "finished"


@pytest.mark.parametrize(
    ("exit_code", "status", "minor"),
    [(0, "Done", "Execution complete"), (3, "Failed", "Exited with code 3"), (None, "Failed", "No exit code")],
)
def test_the_exit_code_decides_the_final_status(holder: Holder, exit_code: int | None, status: str, minor: str) -> None:
    holder.status(JobStatus.RUNNING)
    assert holder.finish(exit_code) == status
    assert (holder.job.status, holder.job.minor_status) == (status, minor)


def test_the_last_lines_of_a_failed_payload_tell_the_cause(holder: Holder) -> None:
    holder.status(JobStatus.RUNNING)
    holder.beat(tails=Tails("event 1\n", "ValueError: bad seed 7\n"))
    # Only what has changed since is sent.
    leases.finish(
        holder.match.pk, exit_code=1, minor=None, usage=Usage(), output_sandbox=None, tails=Tails("event 2\n")
    )
    (tail,) = holder.job.output_tails.all()
    assert (tail.std_output, tail.cause_line, len(tail.cause)) == ("event 2\n", "ValueError: bad seed 7", KEY_LENGTH)


@pytest.mark.parametrize(
    ("exit_code", "minor"), [(0, None), (222, "No room here"), (None, "Memory exceeded"), (1, "Memory exceeded")]
)
def test_no_line_is_the_cause_where_words_are_or_nothing_failed(
    holder: Holder, exit_code: int | None, minor: str | None
) -> None:
    holder.status(JobStatus.RUNNING)
    tails = Tails("", "ValueError: bad seed 7\n")
    leases.finish(holder.match.pk, exit_code=exit_code, minor=minor, usage=Usage(), output_sandbox=None, tails=tails)
    assert [(tail.cause_line, tail.cause) for tail in holder.job.output_tails.all()] == [("", "")]


@pytest.mark.parametrize(("exit_code", "found"), [(0, [LOST_OUTPUT]), (1, [""]), (None, [])])
def test_only_a_successful_payload_is_noted_for_its_lost_output(
    holder: Holder, exit_code: int | None, found: list[str]
) -> None:
    holder.status(JobStatus.RUNNING)
    minor = "Execution complete; output sandbox: too large: big; it is lost"
    tails = NO_TAILS if exit_code is None else Tails("event 1\n", "")
    leases.finish(
        holder.match.pk,
        exit_code=exit_code,
        minor=minor,
        usage=Usage(),
        output_sandbox=None,
        output_lost=True,
        tails=tails,
    )
    assert [tail.cause for tail in holder.job.output_tails.all()] == found
    assert JobFilterSet({"cause": LOST_OUTPUT}, Job.objects.all()).qs.count() == (exit_code == 0)


@pytest.mark.parametrize("silent", [False, True])
def test_a_payload_that_ends_before_any_status_came_through_still_ends(holder: Holder, silent: bool) -> None:
    if silent:
        holder.beat()
        live_through(seconds=160)
        assert holder.job.status == JobStatus.STALLED
    assert holder.finish(0) is JobStatus.DONE


def test_repeating_the_end_is_harmless(holder: Holder) -> None:
    assert holder.finish(3) is JobStatus.FAILED
    before = holder.statuses
    assert holder.finish(0) is JobStatus.FAILED
    assert holder.statuses == before


def test_exit_code_222_sends_the_job_back_to_its_queue(holder: Holder) -> None:
    assert holder.finish(222, minor="No room here") is JobStatus.WAITING
    assert holder.statuses == ["Matched", "Rescheduled", "Waiting"]
    assert holder.job.reschedules == 1
    assert QueuedJob.objects.filter(pk=holder.match.job_id).exists()


def test_a_lease_lasts_five_minutes_until_the_first_report_and_half_an_hour_after_each(holder: Holder) -> None:
    assert holder.match.expires_at - holder.match.leased_at == timedelta(seconds=300)
    pass_time(seconds=200)
    first = holder.beat().expires_at
    assert timedelta(seconds=1999) < first - holder.match.leased_at < timedelta(seconds=2060)
    pass_time(seconds=1000)
    assert timedelta(seconds=999) < holder.beat().expires_at - first < timedelta(seconds=1060)


def test_an_unused_lease_expires_after_its_time_and_the_grace(holder: Holder) -> None:
    assert live_through(seconds=350) == 0
    assert live_through(seconds=20) == 1
    assert holder.statuses == ["Matched", "Rescheduled", "Waiting"]
    assert Match.objects.get().end_reason == "expired"


def test_nothing_can_be_reported_on_a_lease_that_has_expired(holder: Holder) -> None:
    live_through(seconds=400)
    before = holder.statuses
    for report in (holder.beat, lambda: holder.status(JobStatus.RUNNING), lambda: holder.finish(0)):
        with pytest.raises(LeaseEndedError):
            report()
    assert holder.statuses == before
    assert holder.job.exit_code is None


def test_after_three_reschedules_an_expired_job_fails() -> None:
    job = make_job(reschedules=3)
    holder = lease_to(make_pilot(vo=job.vo))
    assert live_through(seconds=400) == 1
    assert holder.job.status == JobStatus.FAILED
    assert not QueuedJob.objects.exists()


@pytest.mark.parametrize("before", [JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING])
def test_five_missed_heartbeats_stall_a_job_and_the_next_one_revives_it(holder: Holder, before: JobStatus) -> None:
    if before is not JobStatus.MATCHED:
        holder.status(before)
    holder.beat()
    live_through(seconds=140)
    assert holder.job.status == before
    live_through(seconds=20)
    assert holder.job.status == JobStatus.STALLED
    holder.beat()
    assert holder.job.status == before


def test_a_status_revives_a_stalled_job_too(holder: Holder) -> None:
    holder.beat()
    live_through(seconds=200)
    holder.status(JobStatus.COMPLETING)
    assert holder.job.status == JobStatus.COMPLETING


def test_an_outage_of_the_server_ends_no_lease(holder: Holder) -> None:
    holder.status(JobStatus.RUNNING)
    pass_time(hours=5)
    assert expiry.expire_leases() == 0
    assert holder.job.status == JobStatus.RUNNING
    pass_time(seconds=1)
    assert expiry.expire_leases() == 0
    holder.beat()
    assert holder.job.status == JobStatus.RUNNING


def test_a_lease_renewed_during_the_outage_is_lengthened_by_the_rest_only(holder: Holder) -> None:
    """The web answers again some seconds before the expirer runs; a pilot that dies then must not keep its job."""
    stop_clock()
    holder.status(JobStatus.RUNNING)
    pass_time(hours=5)
    holder.beat()
    pass_time(seconds=10)
    assert expiry.expire_leases() == 0
    assert live_through(seconds=1850) == 0
    assert live_through(seconds=30) == 1


@override_settings(WMS_LEASE_GRACE_S=1)
def test_a_short_grace_ends_leases_all_the_same(holder: Holder) -> None:
    """The pauses between the expirer's own runs, longer than the grace, are no outage."""
    stop_clock()
    holder.beat()
    assert live_through(seconds=1790) == 0
    assert live_through(seconds=30) == 1


def test_a_long_run_of_the_expirer_is_no_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its transactions takes most of a minute here; the lease made last must not be lengthened by that."""
    stop_clock()
    group = make_group(shares_jobs=True)
    for _ in range(4):
        make_job(group=group)
    lost = [lease_to(make_pilot(vo=group.vo)) for _ in range(3)]
    live_through(seconds=340)
    last = lease_to(make_pilot(vo=group.vo))
    pass_time(seconds=50)
    monkeypatch.setattr(expiry, "ENDED_TOGETHER", 1)

    def execute_slowly(execute: Callable[..., object], sql: str, *arguments: object) -> object:
        answer = execute(sql, *arguments)
        if "wms_end_lease" in sql:
            pass_time(seconds=50)
        return answer

    with connection.execute_wrapper(execute_slowly):
        assert expiry.expire_leases() == len(lost)
    assert expiry.expire_leases() == 0
    assert Match.objects.get(pk=last.match.pk).expires_at == last.match.expires_at


def test_an_outage_lengthens_unused_leases_too(holder: Holder) -> None:
    pass_time(seconds=200)
    assert expiry.expire_leases() == 0
    assert live_through(seconds=340) == 0
    assert live_through(seconds=30) == 1
    assert holder.statuses[-1] == "Waiting"


def test_a_pilot_that_has_ended_loses_its_leases_at_once(holder: Holder) -> None:
    holder.status(JobStatus.RUNNING)
    Pilot.objects.update(status=PilotStatus.ABORTED, ended_at=NOW)
    assert expiry.expire_leases() == 1
    assert holder.statuses[-2:] == ["Rescheduled", "Waiting"]
    assert Match.objects.get().end_reason == "pilot_ended"


class TestKill:
    def test_a_job_is_killed_at_once_and_the_command_repeated_until_acknowledged(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.KILL)
        assert (holder.job.status, holder.job.minor_status) == ("Killed", "Marked for termination")
        (order,) = holder.beat(cpu_s=3.0).commands
        assert order.name == "kill"
        assert holder.beat().commands == [order]
        assert Match.objects.get().ended_at is None
        assert holder.beat(order.pk).commands == []
        assert Match.objects.get().end_reason == "killed"
        assert holder.job.status == JobStatus.KILLED

    def test_the_last_report_may_add_usage_but_no_status(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.KILL)
        assert holder.finish(0, cpu_s=7.0) is JobStatus.KILLED
        assert holder.job.cpu_s == 7.0
        assert Match.objects.get().end_reason == "finished"

    def test_a_last_report_after_the_acknowledgement_adds_usage(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.KILL)
        holder.beat(holder.beat().commands[0].pk)
        assert holder.finish(143, cpu_s=7.0) is JobStatus.KILLED
        assert holder.job.cpu_s == 7.0
        with pytest.raises(LeaseEndedError):
            holder.beat()

    def test_a_status_does_not_bring_a_killed_job_back(self, holder: Holder) -> None:
        holder.asks(Action.KILL)
        assert [order.name for order in holder.status(JobStatus.RUNNING).commands] == ["kill"]
        assert holder.job.status == JobStatus.KILLED

    def test_a_killed_job_whose_pilot_is_gone_stays_killed(self, holder: Holder) -> None:
        holder.asks(Action.KILL)
        assert live_through(seconds=400) == 1
        assert holder.job.status == JobStatus.KILLED


class TestReschedule:
    def test_a_rescheduled_job_waits_after_the_end_of_its_lease(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.RESCHEDULE)
        assert holder.job.status == JobStatus.RESCHEDULED
        assert not QueuedJob.objects.exists()
        (order,) = holder.beat().commands
        holder.beat(order.pk)
        assert holder.job.status == JobStatus.WAITING
        assert QueuedJob.objects.filter(pk=holder.match.job_id).exists()

    def test_the_last_report_ends_the_lease_without_affecting_the_next_attempt(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.RESCHEDULE)
        assert holder.finish(0) is JobStatus.WAITING
        assert holder.job.exit_code is None

    def test_a_command_to_the_first_pilot_is_not_sent_to_the_second(self, holder: Holder) -> None:
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.RESCHEDULE)
        holder.finish(None)
        second = lease_to(make_pilot(vo=holder.job.vo))
        assert second.match.job_id == holder.match.job_id
        assert second.beat().commands == []

    def test_reports_after_the_end_of_a_rescheduled_lease_are_refused(self, holder: Holder) -> None:
        """Neither while the job waits again, nor when it was killed in the hands of the next pilot."""
        holder.status(JobStatus.RUNNING)
        holder.asks(Action.RESCHEDULE)
        holder.beat(holder.beat().commands[0].pk)
        with pytest.raises(LeaseEndedError):
            holder.finish(0, cpu_s=7.0)
        second = lease_to(make_pilot(vo=holder.job.vo))
        second.status(JobStatus.RUNNING)
        second.asks(Action.KILL)
        second.beat(second.beat(cpu_s=1.0).commands[0].pk)
        with pytest.raises(LeaseEndedError):
            holder.finish(0, cpu_s=7.0)
        assert (holder.job.cpu_s, holder.job.exit_code) == (1.0, None)
        assert second.finish(143, cpu_s=2.0) is JobStatus.KILLED
        assert (holder.job.cpu_s, holder.job.exit_code) == (2.0, 143)

    def test_an_expired_lease_queues_the_rescheduled_job(self, holder: Holder) -> None:
        holder.asks(Action.RESCHEDULE)
        live_through(seconds=400)
        assert holder.job.status == JobStatus.WAITING
        assert holder.job.reschedules == 1


def test_a_job_that_completes_cannot_run_again(holder: Holder) -> None:
    holder.status(JobStatus.COMPLETING)
    with pytest.raises(IllegalTransitionError):
        holder.status(JobStatus.RUNNING)
    assert holder.job.status == JobStatus.COMPLETING


def test_a_repeated_status_changes_the_minor_status_only(holder: Holder) -> None:
    holder.status(JobStatus.RUNNING, minor="Step 1")
    holder.status(JobStatus.RUNNING, minor="Step 2", application="50 %")
    assert (holder.job.minor_status, holder.job.application_status) == ("Step 2", "50 %")
    assert holder.statuses == ["Matched", "Running", "Running"]


def test_a_late_heartbeat_does_not_lower_usage(holder: Holder) -> None:
    holder.beat(cpu_s=10.0)
    holder.beat(cpu_s=5.0)
    assert holder.job.cpu_s == 10.0


def test_the_reports_of_a_revoked_pilot_are_refused(holder: Holder) -> None:
    Pilot.objects.update(revoked_at=NOW)
    with pytest.raises(PilotRevokedError):
        holder.beat()
    assert holder.job.heartbeat_at is None
