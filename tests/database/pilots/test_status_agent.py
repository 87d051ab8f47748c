"""The status agent: pilots that are gone, silent, late or no longer wanted (PIL §2.3, DESIGN §3.7)."""

from datetime import timedelta
from typing import Any

import pytest

from pilots.backends.interface import BatchState, Presence
from pilots.domain import PilotStatus
from pilots.models import Pilot
from pilots.services.fleet import Fleet
from pilots.services.reports import leave
from pilots.services.status_agent import look_after
from resources.domain.words import ResourceState
from resources.models import Queue, Site
from tests.database.pilots.conftest import ScriptedBackend
from tests.database.pilots.test_provisioning import sent_pilots
from tests.factories import NOW, make_ce, make_pilot, make_queue, make_vo

pytestmark = pytest.mark.django_db

GONE = BatchState(presence=Presence.ENDED)


def pilot_at(queue: Queue | None = None, **columns: Any) -> Pilot:
    (pilot,) = sent_pilots(queue or make_queue(), vo=make_vo(), **{"batch_id": "b1", **columns})
    return pilot


def running_at(queue: Queue | None = None, **columns: Any) -> Pilot:
    return pilot_at(queue, **{"status": PilotStatus.RUNNING, "started_at": NOW, "last_seen_at": NOW, **columns})


def round_(fleet: Fleet, *, after: timedelta = timedelta()) -> int:
    return look_after(fleet, watched_since=NOW - timedelta(days=1), now=NOW + after)


def state_of(pilot: Pilot) -> tuple[str, str]:
    pilot.refresh_from_db()
    return pilot.status, pilot.status_reason


def test_pilots_that_are_well_stay_as_they_are(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot_at(batch_id="b1")
    running_at(batch_id="b2")
    make_pilot()  # made by hand
    before = list(Pilot.objects.order_by("pk").values())
    assert round_(fleet) == 0
    assert list(Pilot.objects.order_by("pk").values()) == before
    assert backend.killed == []


def test_a_pilot_that_is_gone_has_ended(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    backend.states["b1"] = BatchState(presence=Presence.ENDED, exit_code=-9)
    assert round_(fleet) == 1
    assert state_of(pilot) == (PilotStatus.FAILED, "Killed by SIGKILL")
    assert pilot.ended_at == NOW
    assert round_(fleet) == 0


def test_the_pilots_own_last_words_stay(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    leave(pilot_id=pilot.pk, reason="no job for me", now=NOW)
    backend.states["b1"] = BatchState(presence=Presence.ENDED, exit_code=0)
    assert round_(fleet) == 0
    assert state_of(pilot) == (PilotStatus.DONE, "no job for me")


def test_unknown_is_not_gone(fleet: Fleet, backend: ScriptedBackend) -> None:
    running_at()
    backend.states["b1"] = BatchState(presence=Presence.UNKNOWN)
    assert round_(fleet) == 0


def test_a_ce_that_cannot_be_asked_ends_no_pilot_and_keeps_no_other_back(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = running_at(batch_id="b1"), running_at(batch_id="b2")
    backend.states = {"b1": GONE, "b2": GONE}
    ask = backend.status

    def fails_at_first(batch_ids: Any) -> Any:
        if "b1" in batch_ids:
            raise OSError("the batch system is away")
        return ask(batch_ids)

    monkeypatch.setattr(backend, "status", fails_at_first)
    assert round_(fleet) == 1
    assert state_of(first)[0] == PilotStatus.RUNNING
    assert state_of(second)[0] == PilotStatus.LOST


def test_a_pilot_that_does_not_start_is_stalled_killed_and_then_gone(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = pilot_at(submitted_at=NOW)
    late = timedelta(hours=6, seconds=1)
    assert round_(fleet, after=timedelta(hours=6)) == 0
    assert backend.killed == []

    assert round_(fleet, after=late) == 0
    assert state_of(pilot) == (PilotStatus.STALLED, "Not started within 6.0 h")
    assert pilot.ended_at is None
    assert backend.killed == ["b1"]

    backend.states["b1"] = BatchState(presence=Presence.ENDED, exit_code=-9)
    assert round_(fleet, after=late) == 1
    assert state_of(pilot) == (PilotStatus.ABORTED, "Killed by SIGKILL before it had registered")


def test_a_silent_pilot_is_lost_and_killed(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    assert round_(fleet, after=timedelta(seconds=1800)) == 0
    assert round_(fleet, after=timedelta(seconds=1801)) == 1
    assert state_of(pilot) == (PilotStatus.LOST, "Silent for 1801 s")
    assert backend.killed == ["b1"]


def test_an_outage_of_everything_makes_no_pilot_silent(fleet: Fleet) -> None:
    running_at()
    much_later = NOW + timedelta(days=1)
    assert look_after(fleet, watched_since=much_later, now=much_later + timedelta(seconds=1800)) == 0
    assert look_after(fleet, watched_since=much_later, now=much_later + timedelta(seconds=1801)) == 1


def test_pilots_that_registered_themselves_are_only_heard(fleet: Fleet, backend: ScriptedBackend) -> None:
    for queue in (make_queue(), make_queue(ce=make_ce(type="slurm"))):
        pilot = make_pilot(queue=queue)
        Pilot.objects.filter(pk=pilot.pk).update(started_at=NOW, last_seen_at=NOW)
    assert round_(fleet, after=timedelta(seconds=1800)) == 0
    assert round_(fleet, after=timedelta(seconds=1801)) == 2
    assert backend.killed == []


def test_a_pilot_that_calls_while_it_is_judged_is_not_lost(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pilot = running_at()
    now = NOW + timedelta(hours=1)
    ask = backend.status

    def calls_meanwhile(batch_ids: Any) -> Any:
        Pilot.objects.update(last_seen_at=now)
        return ask(batch_ids)

    monkeypatch.setattr(backend, "status", calls_meanwhile)
    assert round_(fleet, after=timedelta(hours=1)) == 0
    assert state_of(pilot)[0] == PilotStatus.RUNNING
    assert backend.killed == []


def test_a_pilot_whose_director_died_before_it_was_accepted_is_aborted(fleet: Fleet) -> None:
    pilot = pilot_at(batch_id="", status=PilotStatus.SUBMITTED, submitted_at=NOW)
    assert round_(fleet, after=timedelta(seconds=60)) == 0
    assert round_(fleet, after=timedelta(seconds=61)) == 1
    assert state_of(pilot)[0] == PilotStatus.ABORTED


def test_a_ban_removes_the_pilots_that_wait_there_and_a_drain_does_not(fleet: Fleet, backend: ScriptedBackend) -> None:
    queue = make_queue()
    pilot, other = pilot_at(queue, batch_id="b1"), running_at(queue, batch_id="b2")
    Site.objects.update(state=ResourceState.DRAINING)
    assert round_(fleet) == 0
    Site.objects.update(state=ResourceState.BANNED)
    assert round_(fleet) == 1
    assert state_of(pilot) == (PilotStatus.ABORTED, "Its site was banned before it started")
    assert state_of(other)[0] == PilotStatus.RUNNING
    assert backend.killed == ["b1"]
