"""A new kind of computing element needs one file and one registration."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from pytest_django import Settings

from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Director, Pilot, PilotLog
from pilots.services.ce_backends import backend_of, flaw_of_options
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue
from tests.database.pilots import toy
from tests.database.pilots.conftest import Fleet
from tests.factories import NOW, make_ce, make_queue, make_site, make_task_queue
from tests.pace import wait_for

pytestmark = pytest.mark.django_db

_job_ids = count(2_000_001)


@pytest.fixture(autouse=True)
def _registered(settings: Settings, tmp_path: Path) -> Iterator[None]:
    settings.WMS_BACKENDS = {**settings.WMS_BACKENDS, "toy": "tests.database.pilots.toy.ToyBackend"}
    settings.WMS_DATA_DIR = tmp_path
    yield
    for process in toy._processes.values():
        process.kill()
        process.wait()
    toy._processes.clear()


def toy_queue(*, slots: int = 8, does: str = "sleep 600", processors: int = 1, cpu_time_s: int = 3600) -> Queue:
    ce = make_ce(type="toy", options={"slots": slots, "does": does})
    return make_queue(ce=ce, processors=processors, cpu_time_s=cpu_time_s)


def waiting(jobs: int) -> None:
    make_task_queue(job_ids=[next(_job_ids) for _ in range(jobs)], cpu_time_s=500)


def test_pilots_of_a_custom_backend_are_sent_monitored_killed_and_cleaned_up(tmp_path: Path) -> None:
    queue = toy_queue(slots=3)
    waiting(10)
    fleet = Fleet()
    assert fleet.cycle() == 3  # its free slots
    pilots = list(Pilot.objects.filter(queue=queue))
    assert {pilot.status for pilot in pilots} == {PilotStatus.WAITING}
    assert sorted(pilot.batch_id for pilot in pilots) == sorted(str(one.pid) for one in toy._processes.values())

    logs = [tmp_path / "pilots" / queue.ce.site.name / queue.ce.name / pilot.stamp for pilot in pilots]
    wait_for(lambda: all(log.read_text() for log in logs), within_s=60)

    fleet.serve(after=timedelta(hours=7))  # they have not registered
    fleet.serve(after=timedelta(hours=7, minutes=1))
    assert set(Pilot.objects.values_list("status", flat=True)) == {PilotStatus.STALLED}
    assert all(process.poll() == -9 for process in toy._processes.values())
    assert set(PilotLog.objects.values_list("batch_output", flat=True)) == {"hello from a toy\n"}

    fleet.serve(after=timedelta(hours=8))
    assert toy._processes == {}


def test_the_output_of_a_failed_pilot_is_stored() -> None:
    toy_queue(slots=1, does="exit 3")
    waiting(1)
    fleet = Fleet()
    assert fleet.cycle() == 1
    for process in toy._processes.values():
        process.wait()
    fleet.serve(after=timedelta(minutes=1))
    pilot = Pilot.objects.get()
    assert (pilot.status, pilot.status_reason) == (
        PilotStatus.ABORTED, "Ended with exit code 3 before it had registered",
    )  # fmt: skip
    assert pilot.log.batch_output == "hello from a toy\n"


def test_options_of_a_custom_backend_are_checked_before_storing() -> None:
    assert flaw_of_options("CERN", "ce01", "toy", {"slots": 3}, "none") is None
    flaw = flaw_of_options("CERN", "ce01", "toy", {"solts": 3}, "none")
    assert flaw == 'A CE of type toy has no option solts; it has does, slots. Did you mean "slots"?'


def test_a_custom_backend_receives_the_requested_slots() -> None:
    queue = toy_queue(slots=8, processors=8)
    waiting(3)
    assert Fleet().cycle() == 1
    Pilot.objects.all().delete()
    # This one asks for what the jobs need.
    Director.objects.create(name="small", kind="taskqueue").sites.set([make_site()])
    assert backend_of(queue.ce).capacity() == 0
    Director.objects.create(name="here", kind="taskqueue").sites.set([queue.ce.site])
    assert backend_of(queue.ce).capacity() == 7


def test_queues_without_pilots_are_not_passed_to_the_backend() -> None:
    queue = toy_queue(slots=8)
    later = {"state": ResourceState.BANNED, "state_until": NOW.replace(year=2999)}
    Queue.objects.filter(pk=make_queue(ce=queue.ce, processors=8).pk).update(**later)
    assert backend_of(queue.ce).capacity() == 8
    Queue.objects.exclude(pk=queue.pk).update(state_until=NOW.replace(year=2001))
    assert backend_of(queue.ce).capacity() == 1


def test_reported_problems_stay_in_the_health_until_corrected(caplog: pytest.LogCaptureFixture) -> None:
    queue = toy_queue(cpu_time_s=86400)
    fleet = Fleet()
    for minutes in range(3):
        fleet.serve(after=timedelta(minutes=minutes))
    health = CEHealth.objects.get()
    assert (health.shortfalls, health.trouble, health.failures) == (f"The queue {queue.name} is a toy.", "", 0)
    assert [record.msg.partition(":")[0] for record in caplog.records].count("ce.doubtful") == 1
    Queue.objects.update(cpu_time_s=60)
    fleet.serve(after=timedelta(minutes=4))
    assert CEHealth.objects.get().shortfalls == ""


def test_a_ce_of_a_kind_that_is_not_registered_any_more_gets_no_rounds(settings: Settings) -> None:
    toy_queue()
    waiting(1)
    settings.WMS_BACKENDS = {name: path for name, path in settings.WMS_BACKENDS.items() if name != "toy"}
    assert Fleet().cycle() == 0
    assert ComputingElement.objects.get().type == "toy"


def test_a_number_of_free_slots_that_no_cluster_has_is_stored_as_the_largest() -> None:
    toy_queue(slots=10**30)
    Fleet().serve()
    health = CEHealth.objects.get()
    assert (health.free_slots, health.trouble) == (2**31 - 1, "")
