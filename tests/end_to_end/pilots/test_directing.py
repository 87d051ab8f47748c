"""Directors, real agents and a live server: jobs find pilots, and come back from pilots that die."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Self
from urllib.parse import urlsplit

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from matching.queries.closings import closings_now
from matching.services.expiry import expire_leases
from pilots.domain import PilotStatus
from pilots.models import Pilot
from pilots.services.fleet import Fleet
from pilots.services.provisioning import provision
from pilots.services.status_agent import look_after
from resources.domain.words import ResourceState
from resources.models import ComputingElement, Queue
from tests.agent.running import marker, processes_with
from tests.end_to_end.stack.running import manage
from tests.factories import make_ce, make_group, make_job, make_queue, make_site, make_user
from wms.accounts.models import Group
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobHistory

pytestmark = pytest.mark.django_db(transaction=True)
WITHIN_S = 60.0


def until(condition: Callable[[], object], *, meanwhile: Callable[[], object] = lambda: None) -> None:
    give_up = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < give_up, [*Job.objects.values_list("pk", "status"), *Pilot.objects.values()]
        meanwhile()
        time.sleep(0.1)


def pids_of_pilots() -> list[int]:
    return [int(batch_id.split(":")[1]) for batch_id in Pilot.objects.order_by("pk").values_list("batch_id", flat=True)]


class Direction:
    """What `manage.py direct` does, cycle by cycle."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.since = timezone.now()
        self.most_at_once = 0

    def cycle(self) -> None:
        now = timezone.now()
        look_after(self.fleet, watched_since=self.since, now=now)
        provision(self.fleet, closings=closings_now, chance=Random(1), now=now)
        self.most_at_once = max(self.most_at_once, Pilot.objects.filter(ended_at=None).count())
        expire_leases()


@pytest.fixture(autouse=True)
def _hurried(settings: Settings) -> None:
    settings.WMS_HEARTBEAT_S = 1
    settings.WMS_MATCH_RETRY_AFTER_S = 1


@pytest.fixture
def direction(live_server: LiveServer, tmp_path: Path) -> Iterator[Direction]:
    fleet = Fleet(directory=tmp_path / "pilots", server_url=live_server.url)
    yield Direction(fleet)
    fleet.close()


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
    (directory,) = {path.parent for path in tmp_path.glob("pilots/LCG.CERN.ch/ce01/*/agent.log")} & {
        tmp_path / "pilots" / "LCG.CERN.ch" / "ce01" / Pilot.objects.order_by("pk")[0].stamp
    }
    assert "wmsr_" not in (directory / "agent.log").read_text()
    # A pilot's process lives for a moment after its last word; the first cycle after its end clears up.
    until(lambda: not (directory / "work").exists(), meanwhile=direction.cycle)


def test_a_killed_pilot_is_noticed_its_payload_dies_and_its_job_runs_again(
    direction: Direction, queue: Queue, group: Group, tmp_path: Path
) -> None:
    mark, flag = marker(), tmp_path / "second-time"
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
    assert list(tmp_path.glob("pilots/*/*/*/agent.log")) == []
    assert status_of(job) == JobStatus.WAITING


def test_a_ce_with_a_wrong_option_sends_none_and_keeps_no_other_back(
    direction: Direction, queue: Queue, group: Group
) -> None:
    broken = make_queue(ce=make_ce(options={"max_proceses": 3}))
    job = submit(group, "-c true")
    until(lambda: status_of(job) == JobStatus.DONE, meanwhile=direction.cycle)
    assert not Pilot.objects.filter(queue=broken).exists()


def test_a_pilot_that_cannot_run_is_aborted_and_tried_again_later(
    direction: Direction, queue: Queue, group: Group
) -> None:
    ComputingElement.objects.update(options={"python": "false"})
    submit(group, "-c true")
    direction.cycle()
    until(lambda: not Pilot.objects.filter(ended_at=None).exists(), meanwhile=direction.cycle)
    pilot = Pilot.objects.get()
    assert (pilot.status, pilot.status_reason) == (
        PilotStatus.ABORTED, "Ended with exit code 1 before it had registered",
    )  # fmt: skip
    direction.cycle()
    assert Pilot.objects.count() == 1


# ---- the command -----------------------------------------------------------------------------------------------------


class Director:
    """`manage.py direct`, really run."""

    def __init__(self, live_server: LiveServer, directory: Path, *, cycle_s: float = 0.5) -> None:
        database = urlsplit(os.environ["WMS_DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}")
        variables = {
            "WMS_DATABASE_URL": database.geturl(),
            "WMS_SERVER_URL": live_server.url,
            "WMS_DATA_DIR": str(directory),
            "WMS_DIRECTOR_CYCLE_S": str(cycle_s),
        }
        self._log = directory / "director.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(manage("direct"), env={**os.environ, **variables}, stdout=log, stderr=log)

    @property
    def log(self) -> str:
        return self._log.read_text()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def test_a_director_that_is_stopped_takes_its_pilots_along_and_their_jobs_wait_again(
    live_server: LiveServer, queue: Queue, group: Group, tmp_path: Path
) -> None:
    mark = marker()
    job = submit(group, f"-c 'exec sleep {mark}'")
    with Director(live_server, tmp_path) as director:
        until(lambda: status_of(job) == JobStatus.RUNNING)
        director.process.send_signal(signal.SIGTERM)
        assert director.process.wait(timeout=WITHIN_S) == 0, director.log

        assert processes_with(mark) == []
        assert processes_with(str(tmp_path)) == []
        assert status_of(job) == JobStatus.WAITING
        (pilot,) = Pilot.objects.all()
        assert (pilot.status, pilot.status_reason) == (PilotStatus.DONE, "stopped by SIGTERM")
        assert "ERROR" not in director.log


def test_a_killed_director_leaves_no_pilot_and_the_next_one_brings_their_jobs_to_an_end(
    live_server: LiveServer, queue: Queue, group: Group, tmp_path: Path
) -> None:
    mark, flag = marker(), tmp_path / "second-time"
    job = submit(group, f"-c 'test -e {flag} || exec sleep {mark}'")
    with Director(live_server, tmp_path) as director:
        until(lambda: status_of(job) == JobStatus.RUNNING and processes_with(mark))
        flag.touch()
    until(lambda: processes_with(mark) == [])
    until(lambda: processes_with(str(tmp_path)) == [])
    assert Pilot.objects.get().status == PilotStatus.RUNNING

    with Director(live_server, tmp_path) as director:
        until(lambda: status_of(job) == JobStatus.DONE, meanwhile=expire_leases)
        assert "ERROR" not in director.log
    first, _second = Pilot.objects.order_by("pk")
    assert (first.status, first.status_reason) == (PilotStatus.LOST, "Gone, and nobody knows how it ended")


def test_the_end_of_a_pilot_is_noticed_at_once(
    live_server: LiveServer, queue: Queue, group: Group, tmp_path: Path
) -> None:
    mark = marker()
    job = submit(group, f"-c 'exec sleep {mark}'")
    with Director(live_server, tmp_path, cycle_s=600):
        until(lambda: status_of(job) == JobStatus.RUNNING)
        (pid,) = pids_of_pilots()
        os.kill(pid, signal.SIGKILL)
        until(lambda: Pilot.objects.get().status == PilotStatus.FAILED)


def test_a_cycle_that_fails_is_not_the_last(
    live_server: LiveServer, queue: Queue, group: Group, tmp_path: Path
) -> None:
    with Director(live_server, tmp_path) as director:
        until((tmp_path / "pilots" / "LCG.CERN.ch" / "ce01").exists)
        with connection.cursor() as cursor:
            # As when the database is away for a moment.
            cursor.execute("ALTER TABLE pilots_pilot RENAME TO pilots_pilot_away")
            until(lambda: "director.cycle_failed" in director.log)
            cursor.execute("ALTER TABLE pilots_pilot_away RENAME TO pilots_pilot")
        job = submit(group, "-c true")
        until(lambda: status_of(job) == JobStatus.DONE)


def test_no_thread_of_a_director_takes_the_signals_that_it_waits_for(live_server: LiveServer, tmp_path: Path) -> None:
    """A library that starts threads when it is imported does so before the signals are blocked."""
    with Director(live_server, tmp_path) as director:
        tasks = Path(f"/proc/{director.process.pid}/task")

        def blocked(task: Path) -> bool:
            (mask,) = (line.split()[1] for line in (task / "status").read_text().splitlines() if "SigBlk" in line)
            return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)

        until(lambda: blocked(tasks / str(director.process.pid)))
        assert all(blocked(task) for task in tasks.iterdir())
