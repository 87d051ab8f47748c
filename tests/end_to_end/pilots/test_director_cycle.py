"""Directors, real agents and a live server: jobs get pilots, and are rescheduled when a pilot dies."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from matching.queries.restrictions import closings_now
from matching.services.expiry import expire_leases
from pilots.backends.local import dismiss
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.services.ce_cycle import serve
from pilots.services.director_cycle import begin_rounds, run_cycle
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue
from tests.agent.running import marker, processes_with
from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_user
from tests.pace import wait_for, within
from tests.programs import directory_of_payloads
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 60.0


def until(condition: Callable[[], object], *, meanwhile: Callable[[], object] = lambda: None) -> None:
    wait_for(
        lambda: condition() or (meanwhile() and False),
        WITHIN_S,
        every_s=0.1,
        state=lambda: [*Job.objects.values_list("pk", "status"), *Pilot.objects.values()],
    )


def pids_of_pilots() -> list[int]:
    return [int(batch_id.split(":")[1]) for batch_id in Pilot.objects.order_by("pk").values_list("batch_id", flat=True)]


class Direction:
    """The periodic tasks of the directors, cycle by cycle."""

    def __init__(self) -> None:
        self.most_at_once = 0

    def cycle(self) -> None:
        for ce_id in begin_rounds(now=timezone.now()):
            serve(ce_id)
        for ce_id in run_cycle(closings=closings_now, chance=Random(1), now=timezone.now()):
            serve(ce_id)
        self.most_at_once = max(self.most_at_once, Pilot.objects.filter(ended_at=None).count())
        expire_leases()


@pytest.fixture(autouse=True)
def _hurried(settings: Settings) -> None:
    settings.WMS_HEARTBEAT_S = 1
    settings.WMS_MATCH_RETRY_AFTER_S = 1
    settings.WMS_RESCHEDULE_DELAY_S = 1


@pytest.fixture
def direction(live_server: LiveServer, tmp_path: Path, settings: Settings) -> Iterator[Direction]:
    settings.WMS_DATA_DIR, settings.WMS_SERVER_URL = tmp_path, live_server.url
    yield Direction()
    dismiss(tmp_path / "pilots")


@pytest.fixture
def group() -> Group:
    return make_group()


@pytest.fixture
def queue(group: Group) -> Queue:
    ce = make_ce(name="ce01", site=make_site(name="LCG.CERN.ch", vos=[group.vo]), options={"max_idle_s": 1})
    return make_queue(name="grid", ce=ce, max_waiting_pilots=2, max_pilots=3)


def submit(group: Group, arguments: str) -> Job:
    user = make_user(groups=[group])
    return make_job(group=group, owner=user, executable="/bin/sh", arguments=arguments)


def status_of(job: Job) -> str:
    return Job.objects.values_list("status", flat=True).get(pk=job.pk)


def test_jobs_get_pilots_that_run_them_and_never_more_than_the_queue_allows(
    direction: Direction, queue: Queue, group: Group, tmp_path: Path
) -> None:
    jobs = [submit(group, "-c 'sleep 0.5'") for _ in range(8)]

    until(lambda: all(status_of(job) == JobStatus.DONE for job in jobs), meanwhile=direction.cycle)
    until(lambda: not Pilot.objects.filter(ended_at=None).exists(), meanwhile=direction.cycle)

    assert 1 <= direction.most_at_once <= queue.max_pilots
    for pilot in Pilot.objects.all():
        assert (pilot.status, pilot.status_reason) == (PilotStatus.DONE, "no job for me")
        assert (pilot.queue, pilot.vo) == (queue, group.vo)
        assert pilot.started_at is not None
        directory = tmp_path / "pilots" / "LCG.CERN.ch" / "ce01" / pilot.stamp
        assert "wmsr_" not in (directory / "pilot.log").read_text()
        assert not (directory / "secret").exists()


def test_jobs_of_the_second_setup_run_without_any_configuration(
    direction: Direction, queue: Queue, group: Group
) -> None:
    group.vo.setups = ["Certification", "Production"]
    group.vo.save()
    user = make_user(groups=[group])
    jobs = [
        make_job(group=group, owner=user, executable="/bin/true", setup=setup)
        for setup in ("Production", "Certification")
    ]
    until(lambda: all(status_of(job) == JobStatus.DONE for job in jobs), meanwhile=direction.cycle)
    assert set(Pilot.objects.values_list("setup", flat=True)) == {"Production", "Certification"}


@pytest.fixture
def open_directory() -> Iterator[Path]:
    with directory_of_payloads() as directory:
        yield directory


def test_after_a_killed_pilot_the_payload_ends_and_the_job_runs_again(
    direction: Direction, queue: Queue, group: Group, open_directory: Path
) -> None:
    mark, flag = marker(), open_directory / "second-time"
    job = submit(group, f"-c 'test -e {flag} || exec sleep {mark}'")
    until(lambda: processes_with(mark) and status_of(job) == JobStatus.RUNNING, meanwhile=direction.cycle)
    flag.touch()

    (pid,) = pids_of_pilots()
    os.kill(pid, signal.SIGKILL)

    until(lambda: status_of(job) == JobStatus.DONE, meanwhile=direction.cycle)
    assert processes_with(mark) == []
    first, second = Pilot.objects.order_by("pk")
    assert (first.status, first.status_reason) == (PilotStatus.FAILED, "Killed by SIGKILL")
    history = list(JobHistory.objects.filter(job=job).order_by("pk").values_list("status", "minor_status"))
    rescheduled = history.index((JobStatus.RESCHEDULED, "Its pilot ended"))
    assert [status for status, _ in history[rescheduled:]] == [
        JobStatus.RESCHEDULED, JobStatus.WAITING, JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING,
        JobStatus.DONE,
    ]  # fmt: skip
    assert second.matched_at is not None


def test_a_banned_site_gets_no_pilots(direction: Direction, queue: Queue, group: Group, tmp_path: Path) -> None:
    queue.ce.site.state = ResourceState.BANNED
    queue.ce.site.save()
    job = submit(group, "-c true")
    for _ in range(3):
        direction.cycle()
    assert not Pilot.objects.exists()
    assert list(tmp_path.glob("pilots/*/*/*/pilot.log")) == []
    assert status_of(job) == JobStatus.WAITING


def test_a_ce_with_a_wrong_option_gets_no_pilots_and_stops_no_other(
    direction: Direction, queue: Queue, group: Group
) -> None:
    broken = make_queue(ce=make_ce(options={"max_proceses": 3}))
    job = submit(group, "-c true")
    until(lambda: status_of(job) == JobStatus.DONE, meanwhile=direction.cycle)
    assert not Pilot.objects.filter(queue=broken).exists()


def test_pilots_that_end_before_they_registered_are_aborted_and_no_more_are_sent_for_a_while(
    direction: Direction, queue: Queue, group: Group, tmp_path: Path
) -> None:
    python = tmp_path / "python"  # good enough for what is asked of the host, but not for the agent
    python.write_text(f'#!/bin/sh\n[ "$2" = -S ] || exit 7\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    ComputingElement.objects.update(options={"python": str(python)})
    submit(group, "-c true")
    until(lambda: Pilot.objects.exclude(ended_at=None).exists(), meanwhile=direction.cycle)
    pilot = Pilot.objects.get()
    assert pilot.status == PilotStatus.ABORTED
    direction.cycle()
    health = CEHealth.objects.get(ce=queue.ce)
    assert health.send_after is not None
    assert health.trouble
    assert Pilot.objects.count() == 1


def test_pilots_of_a_system_that_stops_hand_their_jobs_back(
    direction: Direction, queue: Queue, group: Group, tmp_path: Path
) -> None:
    mark = marker()
    job = submit(group, f"-c 'exec sleep {mark}'")
    until(lambda: status_of(job) == JobStatus.RUNNING and processes_with(mark), meanwhile=direction.cycle)
    command = [sys.executable, "-m", "wms.stack.pilot_drain", str(tmp_path / "pilots")]
    with subprocess.Popen(command) as drain:
        until(lambda: sleeps(drain.pid))
        drain.terminate()
        assert drain.wait(timeout=within(WITHIN_S)) == 0

    assert processes_with(mark) == []
    assert processes_with(str(tmp_path)) == []
    assert status_of(job) == JobStatus.WAITING
    (pilot,) = Pilot.objects.all()
    assert (pilot.status, pilot.status_reason) == (PilotStatus.DONE, "stopped by SIGTERM")


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port of this machine that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_a_dead_ce_delays_no_other(direction: Direction, queue: Queue, group: Group, silent_port: int) -> None:
    site = make_site(name="LCG.Dead.org", vos=[group.vo])
    where = {"host": "127.0.0.1", "port": silent_port, "user": "pilots"}
    known_hosts = f"[127.0.0.1]:{silent_port} ssh-ed25519 {'A' * 68}"
    dead = make_ce(name="dead", site=site, type="ssh", options={**where, "known_hosts": known_hosts})
    make_queue(ce=dead)
    job = submit(group, "-c true")

    with ThreadPoolExecutor(1) as elsewhere:
        round_at_dead = elsewhere.submit(serve_in_thread, dead.pk)
        until(lambda: CEHealth.objects.filter(ce=dead, busy_until__isnull=False).exists() or round_at_dead.done())
        until(lambda: status_of(job) == JobStatus.DONE, meanwhile=direction.cycle)
        round_at_dead.result()

    health = CEHealth.objects.get(ce=dead)
    assert health.failures == 1
    assert "127.0.0.1" in health.trouble
    assert not Pilot.objects.filter(queue__ce=dead).exists()


def sleeps(pid: int) -> bool:
    """Return whether a process waits for a signal."""
    return "sigtimedwait" in Path(f"/proc/{pid}/wchan").read_text()


def serve_in_thread(ce_id: int) -> None:
    try:
        serve(ce_id)
    finally:
        connection.close()
