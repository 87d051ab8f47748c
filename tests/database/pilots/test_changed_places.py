"""A changed computing element is tried again at once; its earlier failures and pauses no longer count."""

from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import Settings

from pilots.backends.interface import BackendError
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.services import ce_cycle
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from resources.services.states import set_state
from tests.cases import quick_cases
from tests.database.pilots.conftest import Fleet, ScriptedBackend
from tests.factories import NOW, make_ce, make_group, make_queue, make_task_queue
from wms.configuration.configure import configure

pytestmark = pytest.mark.django_db

_job_ids = count(4_000_001)
#: Of the clock until the next attempt.
STEP = timedelta(minutes=1)


@pytest.fixture
def queue() -> Queue:
    """Return a batch queue for which a job waits."""
    queue = make_queue(max_waiting_pilots=50, ce=make_ce(type="local"))
    make_task_queue(group=make_group(), job_ids=[next(_job_ids)])
    return queue


def _configured(queue: Queue, entry: str) -> None:
    ce = queue.ce
    source = f"sites: [{{name: {ce.site.name}, ces: [{{name: {ce.name}, {entry}}}]}}]"
    configure(source.encode(), environ={}, now=timezone.now())


def _state(queue: Queue, level: ComputingElement | Queue | Site) -> None:
    for state in (ResourceState.DRAINING, ResourceState.ACTIVE):
        set_state(level, state=state, reason="repaired", until=None, by=None, now=timezone.now())


CHANGES: dict[str, Any] = {
    "options by a file": lambda queue: _configured(queue, "options: {max_processes: 2}"),
    "state of the CE": lambda queue: _state(queue, queue.ce),
    "state of the queue": lambda queue: _state(queue, queue),
    "state of the site": lambda queue: _state(queue, queue.ce.site),
    "a queue that is gone": lambda queue: queue.ce.queues.exclude(pk=queue.pk).delete(),
    "type by a file": lambda queue: _configured(queue, "type: ssh, options: {host: h}"),
    "identity by a file": lambda queue: _configured(queue, "identity: environment"),
    "a queue by a file": lambda queue: _configured(
        queue, f"queues: [{{name: {queue.name}, cpu_time_s: {queue.cpu_time_s}, wall_time_s: 3600}}]"
    ),
    "a new queue by a file": lambda queue: _configured(queue, "queues: [{name: other, cpu_time_s: 300000}]"),
    "a column": lambda queue: ComputingElement.objects.update(options={"max_processes": 3}),
}


@pytest.fixture(params=quick_cases(CHANGES, quick=2))
def change(request: pytest.FixtureRequest) -> Any:
    return CHANGES[request.param]


def failing(fleet: Fleet, backend: ScriptedBackend, *, times: int) -> timedelta:
    """Make the CE fail this many times; return the time of the last round."""
    passed = timedelta()
    backend.fails = BackendError("Invalid account")
    asked = backend.asked
    while backend.asked < asked + times:
        passed += STEP
        fleet.serve(after=passed)
    backend.fails = None
    return passed


def test_a_changed_ce_that_did_not_answer_is_contacted_at_once(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, change: Any
) -> None:
    make_queue(ce=queue.ce, name="gone")
    assert fleet.cycle() == 1
    passed = failing(fleet, backend, times=5)
    asked = backend.asked
    fleet.serve(after=passed + timedelta(seconds=1))
    assert backend.asked == asked
    change(queue)
    fleet.serve(after=passed + timedelta(seconds=1))
    assert backend.asked == asked + 1
    health = CEHealth.objects.get()
    assert (health.failures, health.trouble, health.ask_after, health.send_after) == (0, "", None, None)


def test_a_changed_ce_whose_pilots_all_failed_gets_pilots_at_once(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, change: Any
) -> None:
    make_queue(ce=queue.ce, name="gone")
    passed = timedelta()
    for _ in range(5):
        while fleet.cycle(after=passed) == 0:
            passed += STEP
        Pilot.objects.filter(ended_at=None).update(status=PilotStatus.FAILED, started_at=NOW, ended_at=NOW + passed)
    assert fleet.cycle(after=passed + timedelta(seconds=1)) == 0
    change(queue)
    assert fleet.cycle(after=passed + timedelta(seconds=1)) == 1


def test_a_changed_queue_with_stalled_pilots_gets_pilots_at_once(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, change: Any, settings: Settings
) -> None:
    make_queue(ce=queue.ce, name="gone", state=ResourceState.DRAINING)
    fleet.cycle()
    late = timedelta(hours=6, seconds=1)
    fleet.serve(after=late)
    assert fleet.cycle(after=late) == 0
    change(queue)
    assert fleet.cycle(after=late + timedelta(seconds=1)) == 1


def test_failures_before_the_change_are_not_counted(fleet: Fleet, backend: ScriptedBackend, queue: Queue) -> None:
    fleet.cycle()
    ComputingElement.objects.update(options={"max_processes": 3})
    fleet.cycle(after=timedelta(minutes=1))
    Pilot.objects.filter(ended_at=None).update(status=PilotStatus.FAILED, ended_at=NOW + timedelta(minutes=2))
    assert fleet.cycle(after=timedelta(minutes=2)) == 1
    assert CEHealth.objects.get().trouble == ""


@pytest.mark.parametrize("level", [ComputingElement, Queue, Site])
def test_changed_job_parameters_do_not_end_the_pause(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, level: type[ComputingElement | Queue | Site]
) -> None:
    fleet.cycle()
    passed = failing(fleet, backend, times=5)
    asked = backend.asked
    level.objects.update(parameters={"SoftwareTag": ["A"]})
    fleet.serve(after=passed + timedelta(seconds=1))
    assert backend.asked == asked


def test_a_change_without_effect_restarts_the_pauses(fleet: Fleet, backend: ScriptedBackend, queue: Queue) -> None:
    fleet.cycle()
    passed = failing(fleet, backend, times=5)
    ComputingElement.objects.update(options={"max_processes": 3})
    backend.fails = BackendError("Invalid account")
    fleet.serve(after=passed)
    health = CEHealth.objects.get()
    assert (health.failures, health.ask_after) == (1, NOW + passed + timedelta(seconds=5))


def test_ask_again_ends_the_pause_after_failed_pilots(fleet: Fleet, queue: Queue) -> None:
    passed = timedelta()
    for _ in range(5):
        while fleet.cycle(after=passed) == 0:
            passed += STEP
        Pilot.objects.filter(ended_at=None).update(status=PilotStatus.FAILED, started_at=NOW, ended_at=NOW + passed)
    fleet.serve(after=passed + timedelta(seconds=1))
    ce_cycle.ask_again(CEHealth.objects.all(), now=NOW + passed + timedelta(seconds=1))
    assert fleet.cycle(after=passed + timedelta(seconds=1)) == 1
