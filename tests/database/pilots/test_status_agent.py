"""The status agent: pilots that have ended, are silent or late, or are no longer needed."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest
from pytest_django import Settings

from pilots.backends.interface import BackendError, BatchState, Presence
from pilots.domain.pilot import PilotStatus
from pilots.models import CEHealth, DirectorRun, Pilot, PilotLog
from pilots.services import ce_cycle, exclusions, status_agent
from pilots.services.batch_requests import request_for_queue
from pilots.services.reports import leave
from resources.domain.enums import ResourceState
from resources.models import ComputingElement, Queue, Site
from tests.cases import quick_cases
from tests.database.pilots.conftest import Fleet, ScriptedBackend, ce_ids
from tests.database.pilots.test_provisioning import sent_pilots
from tests.factories import NOW, make_ce, make_pilot, make_queue, make_vo
from tests.pace import wait_for

pytestmark = pytest.mark.django_db

GONE = BatchState(presence=Presence.ENDED)


@pytest.fixture(autouse=True)
def _heard_all_along(settings: Settings) -> None:
    settings.WMS_DIRECTOR_CYCLE_S = 3600.0
    DirectorRun.objects.create(pk=1, ran_at=NOW, running_since=NOW - timedelta(days=1))


def pilot_at(queue: Queue | None = None, **columns: Any) -> Pilot:
    (pilot,) = sent_pilots(queue or make_queue(), vo=make_vo(), **{"batch_id": "b1", **columns})
    return pilot


def running_at(queue: Queue | None = None, **columns: Any) -> Pilot:
    return pilot_at(queue, **{"status": PilotStatus.RUNNING, "started_at": NOW, "last_seen_at": NOW, **columns})


def round_(fleet: Fleet, *, after: timedelta = timedelta()) -> int:
    living = Pilot.objects.filter(ended_at=None).count()
    fleet.serve(after=after)
    return living - Pilot.objects.filter(ended_at=None).count()


def state_of(pilot: Pilot) -> tuple[str, str]:
    pilot.refresh_from_db()
    return pilot.status, pilot.status_reason


def test_healthy_pilots_are_not_changed(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot_at(batch_id="b1")
    running_at(batch_id="b2")
    make_pilot()  # made by hand
    before = list(Pilot.objects.order_by("pk").values())
    assert round_(fleet) == 0
    assert list(Pilot.objects.order_by("pk").values()) == before
    assert backend.killed == []


def test_a_pilot_missing_in_its_batch_system_has_ended(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    backend.states[pilot.stamp] = BatchState(presence=Presence.ENDED, exit_code=-9)
    assert round_(fleet) == 1
    assert state_of(pilot) == (PilotStatus.FAILED, "Killed by SIGKILL")
    assert pilot.ended_at == NOW
    assert round_(fleet) == 0


def test_the_final_report_of_a_pilot_is_kept(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    leave(pilot_id=pilot.pk, reason="no job for me", now=NOW)
    backend.states[pilot.stamp] = BatchState(presence=Presence.ENDED, exit_code=0)
    assert round_(fleet) == 0
    assert state_of(pilot) == (PilotStatus.DONE, "no job for me")


def test_an_unknown_state_does_not_end_a_pilot(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    backend.states[pilot.stamp] = BatchState(presence=Presence.UNKNOWN)
    assert round_(fleet) == 0


def test_an_unreachable_ce_ends_no_pilot_and_delays_no_other(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = running_at(), running_at()
    backend.states = {pilot.stamp: GONE for pilot in (first, second)}
    ask = backend.status

    def fails_at_first(handles: Any) -> Any:
        if first.stamp in {handle.stamp for handle in handles}:
            raise BackendError("The batch system is away.")
        return ask(handles)

    monkeypatch.setattr(backend, "status", fails_at_first)
    assert round_(fleet) == 1
    assert state_of(first)[0] == PilotStatus.RUNNING
    assert state_of(second)[0] == PilotStatus.LOST
    assert first.queue is not None
    health = CEHealth.objects.get(ce=first.queue.ce)
    assert (health.trouble, health.failures, health.busy_until) == ("The batch system is away.", 1, None)


def test_a_silent_pilot_is_lost_even_if_its_ce_is_unreachable(fleet: Fleet, backend: ScriptedBackend) -> None:
    silent, waiting = running_at(), pilot_at(batch_id="", status=PilotStatus.SUBMITTED, tried_at=NOW)
    backend.fails = BackendError("The batch system is away.")
    assert round_(fleet, after=timedelta(seconds=1801)) == 1
    assert state_of(silent)[0] == PilotStatus.LOST
    assert state_of(waiting)[0] == PilotStatus.SUBMITTED


def test_an_unreachable_ce_is_contacted_with_growing_pauses(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    backend.fails = OSError("the network is down")
    asked = []
    for second in range(60):
        before = backend.asked
        fleet.serve(after=timedelta(seconds=second))
        if backend.asked > before:
            asked.append(second)
    assert asked == [0, 5, 15, 35]
    backend.fails = None
    fleet.serve(after=timedelta(seconds=75))
    assert pilot.queue is not None
    health = CEHealth.objects.get(ce=pilot.queue.ce)
    assert (health.trouble, health.failures, health.free_slots) == ("", 0, 1000)


def test_a_ce_without_pilots_is_queried_twice_a_minute(fleet: Fleet, backend: ScriptedBackend) -> None:
    make_queue()
    told = []
    for second in range(0, 120, 2):
        backend.free = second
        fleet.serve(after=timedelta(seconds=second))
        told.append(CEHealth.objects.get().free_slots)
    assert list(dict.fromkeys(told)) == [0, 30, 60, 90]


def test_a_dead_round_frees_its_ce(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    assert pilot.queue is not None
    CEHealth.objects.create(ce=pilot.queue.ce, busy_until=NOW + timedelta(minutes=1))
    fleet.serve()
    assert backend.asked == 0
    fleet.serve(after=timedelta(minutes=1))
    assert backend.asked == 1


@pytest.mark.django_db(transaction=True)
def test_a_long_round_keeps_its_ce_reserved(backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    pilot = running_at()
    assert pilot.queue is not None
    ce_id, ask = pilot.queue.ce_id, backend.status
    now = [NOW]

    def takes_long(handles: Any) -> Any:
        now[0] = NOW + timedelta(minutes=10)
        # Renewed from elsewhere, for here nothing can be done meanwhile.
        wait_for(lambda: CEHealth.objects.filter(ce=ce_id, busy_until__gt=now[0]).exists(), 60)
        ce_cycle.serve(ce_id, clock=lambda: now[0])
        return ask(handles)

    monkeypatch.setattr(ce_cycle, "_RENEWED_EVERY_S", 0.01)
    monkeypatch.setattr(backend, "status", takes_long)
    ce_cycle.serve(ce_id, clock=lambda: now[0])
    assert backend.asked == 1
    assert CEHealth.objects.get(ce=ce_id).busy_until is None


def test_two_concurrent_rounds_submit_a_pilot_once(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = make_queue()
    pilot_at(queue, status=PilotStatus.SUBMITTED, batch_id="", slot=asdict(request_for_queue(queue)))
    read = ce_cycle._ordered
    others = [queue.ce_id]

    def reads_and_is_suspended(ce: ComputingElement) -> Sequence[Pilot]:
        found = read(ce)
        if others:
            CEHealth.objects.update(busy_until=None)
            ce_cycle.serve(others.pop(), clock=lambda: NOW)
        return found

    monkeypatch.setattr(ce_cycle, "_ordered", reads_and_is_suspended)
    ce_cycle.serve(queue.ce_id, clock=lambda: NOW)
    assert len(backend.orders) == 1


def test_a_pilot_whose_submission_got_lost_is_found_by_its_stamp(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = pilot_at(batch_id="", status=PilotStatus.SUBMITTED, tried_at=NOW)
    backend.states[pilot.stamp] = BatchState(presence=Presence.WAITING, batch_id="4711")
    assert round_(fleet) == 0
    assert state_of(pilot)[0] == PilotStatus.WAITING
    assert pilot.batch_id == "4711"
    assert backend.orders == []


def test_the_output_of_a_failed_pilot_is_kept_with_its_log(fleet: Fleet, backend: ScriptedBackend) -> None:
    failed, well = pilot_at(), running_at()
    backend.states[failed.stamp] = BatchState(presence=Presence.ENDED, exit_code=3)
    backend.states[well.stamp] = BatchState(presence=Presence.ENDED, exit_code=0)
    assert round_(fleet) == 2
    assert dict(PilotLog.objects.values_list("pilot", "batch_output")) == {failed.pk: f"what {failed.stamp} wrote"}


def test_files_of_ended_pilots_are_removed_once(fleet: Fleet, backend: ScriptedBackend) -> None:
    ended, other = pilot_at(), running_at()
    Pilot.objects.filter(pk=ended.pk).update(status=PilotStatus.DONE, ended_at=NOW)
    round_(fleet, after=timedelta(minutes=9))
    assert backend.cleaned == []
    assert ended.queue is not None
    fleet.serve(after=timedelta(minutes=11))
    fleet.serve(after=timedelta(minutes=12))
    assert backend.cleaned == backend.killed == [ended.stamp]
    assert state_of(other)[0] == PilotStatus.RUNNING


def test_files_of_ended_pilots_are_removed_at_closed_queues_too(fleet: Fleet, backend: ScriptedBackend) -> None:
    ended = pilot_at()
    round_(fleet)
    Pilot.objects.update(status=PilotStatus.DONE, ended_at=NOW)
    Queue.objects.update(state=ResourceState.DRAINING)
    for minute in (1, 11, 12):
        fleet.serve(after=timedelta(minutes=minute))
    assert backend.cleaned == [ended.stamp]


@pytest.mark.parametrize(
    "end",
    quick_cases(
        [
            BatchState(presence=Presence.ENDED, exit_code=-9),
            BatchState(presence=Presence.ENDED, exit_code=0),
            BatchState(presence=Presence.ENDED, reason="CANCELLED by 1000"),
            BatchState(presence=Presence.ENDED, reason="via condor_rm (by user pilots)"),
            GONE,
        ],
        quick=2,
    ),
)
def test_a_pilot_that_does_not_start_is_killed_and_ends_as_stalled(
    fleet: Fleet, backend: ScriptedBackend, end: BatchState
) -> None:
    pilot = pilot_at(submitted_at=NOW)
    late = timedelta(hours=6, seconds=1)
    assert round_(fleet, after=timedelta(hours=6)) == 0
    assert backend.killed == []

    assert round_(fleet, after=late) == 0
    assert state_of(pilot) == (PilotStatus.STALLED, "Not started within 6.0 h")
    assert pilot.ended_at is None
    assert backend.killed == [pilot.stamp]

    backend.states[pilot.stamp] = end
    assert round_(fleet, after=late) == 1
    assert state_of(pilot) == (PilotStatus.STALLED, "Not started within 6.0 h")
    assert pilot.ended_at == NOW + late
    assert PilotLog.objects.get().batch_output == f"what {pilot.stamp} wrote"
    assert round_(fleet, after=late) == 0


def test_a_stalled_pilot_unknown_to_its_ce_ends_as_stalled(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = pilot_at(submitted_at=NOW)
    backend.states[pilot.stamp] = BatchState(presence=Presence.UNKNOWN)
    assert round_(fleet, after=timedelta(hours=7)) == 0
    assert round_(fleet, after=timedelta(hours=31)) == 1
    assert state_of(pilot) == (PilotStatus.STALLED, "Not started within 6.0 h")


def test_a_stalled_pilot_that_starts_after_all_runs_and_ends_like_any_other(
    fleet: Fleet, backend: ScriptedBackend
) -> None:
    pilot = pilot_at(submitted_at=NOW)
    round_(fleet, after=timedelta(hours=7))
    started = {"status": PilotStatus.RUNNING, "status_reason": "", "started_at": NOW + timedelta(hours=7)}
    Pilot.objects.update(**started, matched_at=NOW, last_seen_at=NOW + timedelta(hours=7))
    backend.killed.clear()
    assert round_(fleet, after=timedelta(hours=7, minutes=1)) == 0
    assert backend.killed == []
    backend.states[pilot.stamp] = BatchState(presence=Presence.ENDED, exit_code=-9)
    assert round_(fleet, after=timedelta(hours=7, minutes=2)) == 1
    assert state_of(pilot) == (PilotStatus.FAILED, "Killed by SIGKILL")


def test_a_stalled_pilot_that_registers_while_it_is_killed_ends_as_stalled(
    fleet: Fleet, backend: ScriptedBackend
) -> None:
    pilot = pilot_at(submitted_at=NOW)
    late = timedelta(hours=6, seconds=1)
    round_(fleet, after=late)
    started = {"status": PilotStatus.RUNNING, "status_reason": "", "started_at": NOW + late}
    Pilot.objects.update(**started, last_seen_at=NOW + late)
    backend.states[pilot.stamp] = BatchState(presence=Presence.ENDED, exit_code=-9)
    assert round_(fleet, after=late) == 1
    assert state_of(pilot) == (PilotStatus.STALLED, "Not started within 6.0 h, and killed while it registered")


def test_a_pilot_that_registers_before_the_kill_command_is_not_killed(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pilot_at(submitted_at=NOW)
    late = timedelta(hours=6, seconds=1)
    judge = status_agent._judge

    def registers_after_it_was_judged(*args: Any, **kwargs: Any) -> Any:
        fates = judge(*args, **kwargs)
        Pilot.objects.update(status=PilotStatus.RUNNING, status_reason="", started_at=NOW + late)
        return fates

    monkeypatch.setattr(status_agent, "_judge", registers_after_it_was_judged)
    assert round_(fleet, after=late) == 0
    assert backend.killed == []


def test_stalled_pilots_do_not_hide_that_the_others_of_their_ce_fail(fleet: Fleet, backend: ScriptedBackend) -> None:
    failed = pilot_at(submitted_at=NOW - timedelta(minutes=5))
    late = pilot_at(failed.queue, submitted_at=NOW)
    Pilot.objects.filter(pk=failed.pk).update(status=PilotStatus.FAILED, started_at=NOW, ended_at=NOW)
    Pilot.objects.filter(pk=late.pk).update(status=PilotStatus.STALLED, stalled_at=NOW, ended_at=NOW)
    round_(fleet)
    assert CEHealth.objects.get().trouble == "Its last pilots all failed"


@pytest.mark.parametrize("said", ["x" * 5000, "held: \0\1 and so on"])
def test_unexpected_batch_system_states_do_not_stop_a_round(fleet: Fleet, backend: ScriptedBackend, said: str) -> None:
    late = pilot_at()
    gone, revoked = pilot_at(late.queue, batch_id="b2"), pilot_at(late.queue, batch_id="b3")
    backend.states[late.stamp] = BatchState(presence=Presence.WAITING, reason=said)
    backend.states[gone.stamp] = BatchState(presence=Presence.ENDED, reason=said, exit_code=1)
    backend.states[revoked.stamp] = BatchState(presence=Presence.UNKNOWN, reason=said)
    fleet.serve(after=timedelta(hours=7))
    assert state_of(late)[0] == PilotStatus.STALLED
    assert state_of(gone)[0] == PilotStatus.ABORTED
    assert state_of(late)[1].startswith("Not started within 6.0 h: " + said[:6])
    assert CEHealth.objects.get().failures == 0


def test_error_messages_with_any_characters_are_stored(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot_at()
    backend.fails = BackendError("squeue said \0 and ended")
    fleet.serve()
    assert CEHealth.objects.get().trouble == "squeue said \N{REPLACEMENT CHARACTER} and ended"


def test_a_silent_pilot_is_lost_and_killed(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    assert round_(fleet, after=timedelta(seconds=1800)) == 0
    assert round_(fleet, after=timedelta(seconds=1801)) == 1
    assert state_of(pilot) == (PilotStatus.LOST, "Silent for 1801 s")
    assert backend.killed == [pilot.stamp]


def test_an_outage_of_everything_makes_no_pilot_silent(fleet: Fleet) -> None:
    running_at()
    fleet.cycle()
    fleet.cycle(after=timedelta(days=1))
    assert round_(fleet, after=timedelta(days=1, seconds=1800)) == 0
    assert round_(fleet, after=timedelta(days=1, seconds=1801)) == 1


def test_self_registered_pilots_are_tracked_by_their_reports_only(fleet: Fleet, backend: ScriptedBackend) -> None:
    for queue in (make_queue(), make_queue(ce=make_ce(type="slurm"))):
        pilot = make_pilot(queue=queue)
        Pilot.objects.filter(pk=pilot.pk).update(started_at=NOW, last_seen_at=NOW)
    assert round_(fleet, after=timedelta(seconds=1800)) == 0
    assert round_(fleet, after=timedelta(seconds=1801)) == 2
    assert backend.killed == []


def test_a_report_during_the_round_prevents_the_loss_of_a_pilot(
    fleet: Fleet, backend: ScriptedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    pilot = running_at()
    now = NOW + timedelta(hours=1)
    ask = backend.status

    def calls_meanwhile(handles: Any) -> Any:
        Pilot.objects.update(last_seen_at=now)
        return ask(handles)

    monkeypatch.setattr(backend, "status", calls_meanwhile)
    assert round_(fleet, after=timedelta(hours=1)) == 0
    assert state_of(pilot)[0] == PilotStatus.RUNNING
    assert backend.killed == []


def test_a_pilot_unknown_to_its_ce_is_aborted(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = pilot_at(batch_id="", status=PilotStatus.SUBMITTED, submitted_at=NOW, tried_at=NOW)
    backend.states[pilot.stamp] = BatchState(presence=Presence.UNKNOWN)
    assert round_(fleet, after=timedelta(minutes=10)) == 0
    assert round_(fleet, after=timedelta(minutes=10, seconds=1)) == 1
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
    assert backend.killed == [pilot.stamp]


def test_pilots_ended_by_people_are_no_failures_of_the_ce(fleet: Fleet, backend: ScriptedBackend) -> None:
    queue = make_queue()
    pilots = [pilot_at(queue, batch_id=f"b{cycle}", submitted_at=NOW - timedelta(minutes=cycle)) for cycle in range(12)]
    exclusions.drain(Pilot.objects.filter(pk__in=[pilot.pk for pilot in pilots[:4]]), reason="", now=NOW)
    exclusions.revoke(Pilot.objects.filter(pk__in=[pilot.pk for pilot in pilots[4:8]]), by="bob", now=NOW)
    Queue.objects.update(state=ResourceState.BANNED)
    round_(fleet)
    Queue.objects.update(state=ResourceState.ACTIVE)
    backend.states = {pilot.stamp: GONE for pilot in pilots}
    assert round_(fleet) == 4
    assert not Pilot.objects.filter(ended_at=None).exists()
    health = CEHealth.objects.get()
    assert (health.trouble, health.send_after) == ("", None)


def test_a_revoked_pilot_is_killed_at_its_ce_and_then_is_aborted(fleet: Fleet, backend: ScriptedBackend) -> None:
    pilot = running_at()
    revoked = exclusions.revoke(Pilot.objects.all(), by="bob", now=NOW)
    assert (revoked.pilots, set(revoked.ce_ids)) == (1, set(ce_ids()))
    assert round_(fleet) == 0
    assert backend.killed == [pilot.stamp]
    assert state_of(pilot) == (PilotStatus.RUNNING, "Revoked by bob")
    backend.states[pilot.stamp] = BatchState(presence=Presence.ENDED, exit_code=-15)
    assert round_(fleet, after=timedelta(seconds=5)) == 1
    assert state_of(pilot) == (PilotStatus.ABORTED, "Revoked by bob")
    assert exclusions.revoke(Pilot.objects.all(), by="olivia", now=NOW).pilots == 0


@pytest.mark.parametrize("by", ["drained", "revoked"])
def test_a_revoked_pilot_is_not_submitted(fleet: Fleet, backend: ScriptedBackend, by: str) -> None:
    pilot = pilot_at(batch_id="", status=PilotStatus.SUBMITTED)
    if by == "drained":
        assert exclusions.drain(Pilot.objects.all(), reason="no more", now=NOW) == 1
    else:
        exclusions.revoke(Pilot.objects.all(), by="bob", now=NOW)
    backend.states[pilot.stamp] = BatchState(presence=Presence.UNKNOWN)
    round_(fleet)
    round_(fleet, after=timedelta(minutes=11))
    assert backend.orders == []
    assert state_of(pilot)[0] == PilotStatus.ABORTED


def test_ask_again_contacts_a_ce_at_once(fleet: Fleet, backend: ScriptedBackend) -> None:
    running_at()
    backend.fails = BackendError("no answer")
    for minute in range(3):
        round_(fleet, after=timedelta(minutes=10 * minute))
    backend.fails, backend.asked = None, 0
    now = timedelta(minutes=20, seconds=1)
    round_(fleet, after=now)
    assert backend.asked == 0
    assert ce_cycle.ask_again(CEHealth.objects.all(), now=NOW + now) == list(
        CEHealth.objects.values_list("pk", flat=True)
    )
    assert CEHealth.objects.get().failures == 3
    round_(fleet, after=now)
    assert backend.asked == 1
    assert (CEHealth.objects.get().failures, CEHealth.objects.get().trouble) == (0, "")
