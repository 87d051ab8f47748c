"""Places with pilots that are deleted, or whose batch system cannot be queried any more."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import ProtectedError
from pytest_django import Settings

from pilots.backends.interface import BackendError
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, DirectorRun, Pilot
from pilots.services import ce_cycle, exclusions
from pilots.services.director_cycle import begin_rounds
from resources.models import ComputingElement, Queue, Site
from tests.database.pilots.conftest import Fleet, ScriptedBackend
from tests.database.pilots.test_provisioning import sent_pilots
from tests.factories import NOW, make_ce, make_pilot, make_queue, make_vo

pytestmark = pytest.mark.django_db

WAITS: dict[str, Any] = {"status": PilotStatus.WAITING, "batch_id": "b1"}
RUNS: dict[str, Any] = {"status": PilotStatus.RUNNING, "batch_id": "b1", "started_at": NOW, "last_seen_at": NOW}


@pytest.mark.parametrize("rows", [Queue.objects, ComputingElement.objects, Site.objects], ids=["queue", "ce", "site"])
@pytest.mark.parametrize("columns", [WAITS, RUNS], ids=["waits", "runs"])
def test_a_place_is_not_deleted_while_pilots_live_there(rows: Any, columns: dict[str, Any]) -> None:
    """Without a queue they would be compared with no site, and nobody would look after them."""
    queue = make_queue()
    (pilot,) = sent_pilots(queue, vo=make_vo(), **columns)
    with pytest.raises(ProtectedError):
        rows.all().delete()
    pilot.refresh_from_db()
    assert pilot.queue == queue


def test_a_pilot_that_registered_itself_keeps_its_place_too() -> None:
    queue = make_queue()
    make_pilot(queue=queue)
    with pytest.raises(ProtectedError):
        queue.ce.site.delete()


def test_ended_pilots_do_not_prevent_the_deletion_of_their_place() -> None:
    queue, other = make_queue(), make_queue()
    pilots = sent_pilots(queue, vo=make_vo(), number=2, status=PilotStatus.DONE, ended_at=NOW)
    (elsewhere,) = sent_pilots(other, vo=make_vo(), **RUNS)
    queue.ce.site.delete()
    assert set(Pilot.objects.values_list("pk", "queue")) == {(elsewhere.pk, other.pk), *((p.pk, None) for p in pilots)}


def test_the_pilots_of_a_ce_that_is_gone_for_good_can_be_ended_and_it_deleted(
    fleet: Fleet, backend: ScriptedBackend
) -> None:
    queue = make_queue()
    sent_pilots(queue, vo=make_vo(), **WAITS)
    backend.fails = BackendError("No such host.")
    exclusions.revoke(Pilot.objects.all(), by="olivia", now=NOW)
    fleet.serve(after=timedelta(minutes=9))
    assert Pilot.objects.get().ended_at is None
    fleet.serve(after=timedelta(minutes=11))
    assert (Pilot.objects.get().status, Pilot.objects.get().status_reason) == (PilotStatus.ABORTED, "Revoked by olivia")
    queue.ce.site.delete()
    assert not CEHealth.objects.exists()


def test_silent_pilots_are_lost_also_where_the_ce_is_of_no_known_type(settings: Settings) -> None:
    settings.WMS_DIRECTOR_CYCLE_S = 3600.0
    DirectorRun.objects.create(pk=1, ran_at=NOW, running_since=NOW - timedelta(days=1))
    queue = make_queue(ce=make_ce(type="vacuum"))
    sent_pilots(queue, vo=make_vo(), **RUNS)
    now = NOW + timedelta(seconds=1801)
    (ce_id,) = begin_rounds(now=now)
    ce_cycle.serve(ce_id, clock=lambda: now)
    assert Pilot.objects.get().status == PilotStatus.LOST
    assert CEHealth.objects.get().trouble.startswith("No pilots are sent to CEs of type vacuum; there are: local, ")
    assert begin_rounds(now=now + timedelta(days=1)) == frozenset()
