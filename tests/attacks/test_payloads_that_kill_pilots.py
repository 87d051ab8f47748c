"""A payload that kills its pilots and the jobs beside it is started on two pilots, and on no third."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from matching.models import Match
from matching.queries.invariants import violations
from matching.queries.restrictions import closings_now
from matching.services import leases
from matching.services.expiry import expire_leases
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.backends.local import dismiss
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.ce_cycle import serve
from pilots.services.director_cycle import begin_rounds, run_cycle
from pilots.services.reports import end_pilot, leave
from resources.models import Queue
from tests.agent.running import marker, processes_with
from tests.cases import quick_cases
from tests.clock import pass_time, reset_clock
from tests.factories import make_ce, make_group, make_job, make_pilot, make_queue, make_site, make_user
from tests.pace import wait_for
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now
from wms.wire.protocol import RESCHEDULE_EXIT_CODE, Usage

End = Callable[[Match], object]


@pytest.fixture(autouse=True)
def _at_once(settings: Settings) -> None:
    settings.WMS_RESCHEDULE_DELAY_S = settings.WMS_RESCHEDULE_ELSEWHERE_S = 0


@pytest.fixture
def job(db: None) -> Iterator[Job]:
    expire_leases()
    yield make_job(group=make_group())
    reset_clock()


def _leased(job: Job) -> Match:
    pilot = make_pilot(vo=job.vo, queue=Queue.objects.first() or make_queue(ce=make_ce(site=make_site(vos=[job.vo]))))
    offer = OfferRequest(cpu_time_s=300_000)
    (lease,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return Match.objects.get(pk=lease.match_id)


#: Between two runs of the expirer; if it were longer than its outage, no lease would ever end.
_STEP_S = 50.0


def _until_over(*heard: Pilot) -> None:
    for _ in range(50):
        pass_time(seconds=_STEP_S)
        Pilot.objects.filter(pk__in=[pilot.pk for pilot in heard]).update(last_seen_at=database_now())
        expire_leases()


def _silent(match: Match) -> None:
    """Expire the lease: its pilot is silent, while another one of its queue reports."""
    _until_over(make_pilot(vo=match.pilot.vo, queue=match.pilot.queue))


def _outage(match: Match) -> None:
    """Expire the lease: no pilot of its queue reports."""
    make_pilot(vo=match.pilot.vo, queue=match.pilot.queue)
    _until_over()


def _lost_in_an_outage(match: Match) -> None:
    for _ in range(34):
        pass_time(seconds=_STEP_S)
        expire_leases()
    end_pilot(match.pilot_id, status=PilotStatus.LOST, reason="Silent", now=database_now(), died=True)
    expire_leases()


def _cut_off(match: Match) -> None:
    """Expire the lease; then its pilot asks for another job."""
    _silent(match)
    pass_time(seconds=10)
    Pilot.objects.filter(pk=match.pilot_id).update(last_seen_at=database_now())


def _end_of_pilot(*, died: bool, status: PilotStatus = PilotStatus.FAILED) -> End:
    def end(match: Match) -> None:
        end_pilot(match.pilot_id, status=status, reason="x", now=timezone.now(), died=died)
        expire_leases()

    return end


def _revoked(match: Match) -> None:
    Pilot.objects.filter(pk=match.pilot_id).update(revoked_at=timezone.now())
    _until_over()


def _drained(match: Match) -> None:
    Pilot.objects.filter(pk=match.pilot_id).update(drained_at=timezone.now())
    _end_of_pilot(died=True)(match)


def _leaves(match: Match) -> None:
    leave(pilot_id=match.pilot_id, reason="stopped by SIGTERM", now=timezone.now())
    expire_leases()


def _handed_back(*, supervisor_died: bool, exit_code: int = RESCHEDULE_EXIT_CODE) -> End:
    def end(match: Match) -> None:
        leases.finish(
            match.pk,
            exit_code=exit_code,
            minor="The pilot's process for the job was ended by SIGKILL",
            usage=Usage(),
            output_sandbox=None,
            supervisor_died=supervisor_died,
        )

    return end


def _after(job: Job, *ends: End, status: JobStatus = JobStatus.RUNNING) -> Job:
    """Return the job after one lease for each of *ends*, which ends it."""
    for end in ends:
        lease = _leased(job)
        if status is not JobStatus.MATCHED:
            leases.report_status(lease.pk, status=JobStatus.RUNNING)
        if status is JobStatus.COMPLETING:
            leases.report_status(lease.pk, status=status)
        end(lease)
    job.refresh_from_db()
    return job


DEATHS = [
    pytest.param(_silent, id="silence"),
    pytest.param(_end_of_pilot(died=True), id="killed pilot"),
    pytest.param(_end_of_pilot(died=True, status=PilotStatus.LOST), id="lost pilot"),
    pytest.param(_handed_back(supervisor_died=True), id="killed process of the pilot"),
]


@pytest.mark.parametrize("first", quick_cases(DEATHS, quick=1))
@pytest.mark.parametrize("second", DEATHS)
def test_a_job_fails_after_two_pilot_deaths(first: End, second: End, job: Job) -> None:
    assert _after(job, first).status == JobStatus.WAITING
    after = _after(job, second)
    assert after.status == JobStatus.FAILED
    assert after.minor_status.endswith("died 2 times while the payload ran")
    assert not list(violations())


@pytest.mark.parametrize("end", DEATHS)
@pytest.mark.parametrize("status", [JobStatus.MATCHED, JobStatus.COMPLETING])
def test_a_pilot_death_without_a_payload_does_not_count(end: End, status: JobStatus, job: Job) -> None:
    assert _after(job, end, end, end, status=status).status == JobStatus.WAITING


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(_end_of_pilot(died=False), id="ended by its batch system"),
        pytest.param(_revoked, id="revoked"),
        pytest.param(_drained, id="drained"),
        pytest.param(_leaves, id="left by itself"),
        pytest.param(_handed_back(supervisor_died=False), id="handed back"),
        pytest.param(_outage, id="nobody was heard of"),
        pytest.param(_lost_in_an_outage, id="lost while nobody was heard of"),
        pytest.param(_cut_off, id="heard of again"),
    ],
)
def test_other_ends_do_not_count_as_pilot_deaths(end: End, job: Job) -> None:
    assert _after(job, end, end, end).status == JobStatus.WAITING
    after = _after(job, end)
    assert (after.status, after.reschedules) == (JobStatus.FAILED, 3)
    assert "rescheduled 3 times before" in after.minor_status


def test_pilot_deaths_and_reschedules_are_counted_separately(job: Job) -> None:
    assert _after(job, _silent, _leaves, _leaves).status == JobStatus.WAITING
    assert _after(job, _silent).minor_status.endswith("died 2 times while the payload ran")


def test_a_reported_death_counts_only_when_the_job_is_handed_back(job: Job) -> None:
    assert _after(job, _handed_back(supervisor_died=True, exit_code=0)).status == JobStatus.DONE
    assert not Match.objects.filter(died=True).exists()


@pytest.mark.parametrize(("limit", "deaths"), [(1, 1), (3, 3)])
def test_the_maximum_of_pilot_deaths_is_a_setting(limit: int, deaths: int, job: Job, settings: Settings) -> None:
    settings.WMS_MAX_PILOT_DEATHS = limit
    assert _after(job, *[_silent] * deaths).minor_status.endswith("while the payload ran")


def test_a_maximum_of_zero_allows_any_number_of_pilot_deaths(job: Job, settings: Settings) -> None:
    settings.WMS_MAX_PILOT_DEATHS = 0
    assert _after(job, _silent, _silent, _silent).status == JobStatus.WAITING


@pytest.mark.django_db(transaction=True)
def test_a_job_fails_after_a_real_pilot_is_killed_twice(
    live_server: LiveServer, tmp_path: Path, settings: Settings
) -> None:
    settings.WMS_DATA_DIR, settings.WMS_SERVER_URL = tmp_path, live_server.url
    settings.WMS_HEARTBEAT_S = settings.WMS_MATCH_RETRY_AFTER_S = 1
    group = make_group()
    make_queue(ce=make_ce(site=make_site(vos=[group.vo]), options={"max_idle_s": 1}))
    mark = marker()
    job = make_job(
        group=group, owner=make_user(groups=[group]), executable="/bin/sh", arguments=f"-c 'exec sleep {mark}'"
    )

    def cycle() -> None:
        directed = run_cycle(closings=closings_now, chance=Random(1), now=timezone.now())
        for ce_id in [*begin_rounds(now=timezone.now()), *directed]:
            serve(ce_id)
        expire_leases()

    def killed() -> bool:
        """Kill the pilot whenever its payload runs; return whether the job has failed."""
        cycle()
        job.refresh_from_db()
        lease = Match.objects.filter(ended_at=None, reported_status=JobStatus.RUNNING, pilot__ended_at=None).first()
        if lease is not None and processes_with(mark):
            os.kill(int(lease.pilot.batch_id.split(":")[1]), signal.SIGKILL)
            wait_for(lambda: not processes_with(mark), 60.0, every_s=0.1)
        return job.status == JobStatus.FAILED

    try:
        wait_for(killed, 180.0, every_s=0.2, state=lambda: [*Job.objects.values(), *Pilot.objects.values()])
    finally:
        dismiss(tmp_path / "pilots")
    assert job.minor_status == (
        "Its pilot ended: the pilot, or its process for the job, died 2 times while the payload ran"
    )
    assert Match.objects.filter(job=job, died=True).count() == 2
    assert not processes_with(mark)
