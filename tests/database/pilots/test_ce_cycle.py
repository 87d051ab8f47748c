"""Rounds at computing elements with failures: of the CE, its nodes, our code, the database or the clock."""

from datetime import datetime, timedelta
from itertools import count
from typing import Any

import pytest
from django.db import DatabaseError

from pilots.backends.interface import BackendError, BatchState, Presence
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, Pilot
from pilots.queries import free_slots
from pilots.services import ce_cycle
from resources.models import ComputingElement, Queue
from tests.database.pilots.conftest import Fleet, ScriptedBackend
from tests.factories import NOW, make_ce, make_group, make_pilot, make_queue, make_task_queue

pytestmark = pytest.mark.django_db

FAR_AWAY = NOW + timedelta(days=365)
_job_ids = count(2_000_001)


def waiting(jobs: int) -> None:
    make_task_queue(group=make_group(), job_ids=[next(_job_ids) for _ in range(jobs)])


@pytest.fixture
def queue() -> Queue:
    """Return a batch queue for which a job waits."""
    queue = make_queue(max_waiting_pilots=50)
    waiting(1)
    return queue


def health_of(ce: ComputingElement | None) -> CEHealth:
    return CEHealth.objects.get(ce=ce)


@pytest.mark.parametrize("refusal", ["no space left on device", BackendError("no space left on device")])
def test_a_pilot_that_could_not_be_started_is_aborted_and_the_ce_left_alone_for_a_while(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue, refusal: str | Exception
) -> None:
    waiting(2)
    backend.refuses = refusal

    assert fleet.cycle() == 0

    assert set(Pilot.objects.values_list("status", "ended_at")) == {(PilotStatus.ABORTED, NOW)}
    assert all("no space left" in reason for reason in Pilot.objects.values_list("status_reason", flat=True))
    asked = len(backend.orders)
    fleet.cycle(after=timedelta(seconds=4))
    assert len(backend.orders) == asked
    backend.refuses = None
    assert fleet.cycle(after=timedelta(seconds=6)) == 3


def test_failing_node_checks_lengthen_the_pause_of_the_ce(fleet: Fleet, queue: Queue) -> None:
    pauses = []
    passed = timedelta()
    for _ in range(4):
        begun = passed
        while fleet.cycle(after=passed) == 0:
            passed += timedelta(seconds=1)
        pauses.append((passed - begun).total_seconds())
        Pilot.objects.filter(ended_at=None).update(
            status=PilotStatus.FAILED, started_at=NOW + passed, ended_at=NOW + passed
        )
    assert pauses == [0, 5, 10, 20]


def test_after_an_internal_error_submitted_pilots_are_unknown(
    fleet: Fleet, backend: ScriptedBackend, queue: Queue
) -> None:
    backend.refuses = ValueError("a number was expected, and this came: submitted")
    assert fleet.cycle() == 0
    pilot = Pilot.objects.get()
    assert (pilot.status, pilot.batch_id, pilot.ended_at) == (PilotStatus.SUBMITTED, "", None)
    assert "a number was expected" in health_of(queue.ce).trouble

    # They were: it is found by its stamp, and not submitted again.
    backend.refuses = None
    backend.states[pilot.stamp] = BatchState(presence=Presence.RUNNING, batch_id="17")
    fleet.serve(after=timedelta(seconds=6))
    pilot.refresh_from_db()
    assert (pilot.batch_id, pilot.ended_at) == ("17", None)
    assert [order.stamp for order in backend.orders] == [pilot.stamp]


def test_a_database_error_is_not_a_failure_of_the_computing_element(
    backend: ScriptedBackend, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> None:
        raise DatabaseError("the connection was closed")

    monkeypatch.setattr("pilots.services.ce_cycle.check_pilots", gone)
    with pytest.raises(DatabaseError, match="closed"):
        ce_cycle.serve(queue.ce_id, clock=lambda: NOW)
    assert (health_of(queue.ce).failures, health_of(queue.ce).trouble) == (0, "")
    assert backend.asked == 0


def test_a_computing_element_may_be_removed_while_it_has_a_round(backend: ScriptedBackend) -> None:
    ce = make_ce()

    def capacity() -> int:
        ComputingElement.objects.filter(pk=ce.pk).delete()
        raise RuntimeError("it is gone")

    backend.capacity = capacity  # type: ignore[method-assign]
    ce_cycle.serve(ce.pk, clock=lambda: NOW)
    assert not CEHealth.objects.exists()


@pytest.mark.parametrize("column", ["ask_after", "busy_until", "send_after"])
@pytest.mark.parametrize(("until", "waits"), [(NOW + timedelta(seconds=20), True), (FAR_AWAY, False)])
def test_a_pause_far_in_the_future_is_ignored(
    fleet: Fleet, queue: Queue, column: str, until: datetime, waits: bool
) -> None:
    noted: dict[str, Any] = {"asked_at": NOW - timedelta(minutes=1), "free_slots": 10, column: until}
    CEHealth.objects.create(ce=queue.ce, **noted)
    if column == "send_after":
        assert (queue.ce_id not in free_slots(now=NOW)) == waits
    else:
        fleet.serve()
        assert (health_of(queue.ce).asked_at != NOW) == waits


def test_a_ce_without_pilots_is_not_contacted_and_its_silent_pilots_end(fleet: Fleet, backend: ScriptedBackend) -> None:
    backend.fails = BackendError("There is no way to this CE.")
    queue = make_queue(max_waiting_pilots=0)
    pilot = make_pilot(queue=queue, status=PilotStatus.RUNNING)
    Pilot.objects.update(started_at=NOW, last_seen_at=NOW)

    fleet.serve()
    pilot.refresh_from_db()
    assert (pilot.status, backend.asked) == (PilotStatus.RUNNING, 0)
    assert (health_of(queue.ce).trouble, health_of(queue.ce).failures) == ("", 0)

    for minutes in range(60):  # silence counts only while rounds are made
        fleet.serve(after=timedelta(minutes=minutes))
    pilot.refresh_from_db()
    assert (pilot.status, backend.asked) == (PilotStatus.LOST, 0)
