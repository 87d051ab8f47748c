"""Failures in a real HTCondor pool: holds, evictions, limits, a dead schedd, lost answers."""

from pathlib import Path

import pytest

from pilots.backends.interface import BackendError, Handle, Presence, SubmitResult
from tests.backends.htcondor.conftest import CE
from tests.backends.htcondor.pool import program
from tests.pace import wait_for
from tests.ssh import ssh_host

#: HTCondor runs in a root directory of its own.
pytestmark = pytest.mark.root


def test_a_pilot_held_by_a_person_waits_until_it_is_released(ce: CE) -> None:
    handle = ce.start(memory_mb=10**6)

    ce.pool.run("condor_hold", handle.batch_id)

    state = ce.state(handle)
    assert (state.presence, state.reason) == (Presence.WAITING, "held: via condor_hold (by user pilots)")


def test_a_pilot_that_htcondor_holds_ends_with_the_reason(ce: CE) -> None:
    order = ce.order()
    backend = ce.backend(requirements="false")
    (submission,) = backend.submit([order])
    handle = Handle(stamp=order.stamp, batch_id=submission.batch_id)
    ce.pool.run("sh", "-c", f"rm ~/wms-pilots/{order.stamp}/secret")

    ce.pool.run("condor_qedit", handle.batch_id, "Requirements", "true")

    state = ce.reach(Presence.ENDED, handle)
    assert state.reason.startswith("held: ")
    assert "secret" in state.reason


def test_a_pilot_that_is_held_after_its_start_has_ended(ce: CE) -> None:
    handle = ce.run_until_ready()

    ce.pool.run("condor_hold", handle.batch_id)

    assert ce.reach(Presence.ENDED, handle).reason == "held: via condor_hold (by user pilots)"
    wait_for(lambda: ce.pool.jobs() == [])


def test_a_pilot_that_is_evicted_runs_until_it_has_left(ce: CE) -> None:
    handle = ce.run_until_ready("stubborn")
    ce.pool.run("condor_vacate_job", handle.batch_id)
    wait_for(lambda: ce.has_noted(handle, "asked"))

    states = []
    while ce.processes_of(handle):
        states.append(ce.state(handle).presence)

    assert set(states[:-1]) == {Presence.RUNNING}  # in the last moment it may have ended
    ce.reach(Presence.ENDED, handle)


def test_a_pilot_that_was_evicted_has_ended_and_is_not_started_again(ce: CE) -> None:
    handle = ce.run_until_ready()

    ce.pool.run("condor_vacate_job", handle.batch_id)

    assert ce.reach(Presence.ENDED, handle).reason == "it was evicted, and pilots start once"
    wait_for(lambda: ce.pool.jobs() == [])
    assert ce.state(handle).reason == "it was evicted, and pilots start once"
    assert ce.pool.run("condor_history", "-af", "NumJobStarts", "-limit", "1").split() == ["1"]


def test_a_pilot_removed_by_an_operator_has_ended_with_the_reason(ce: CE) -> None:
    handle = ce.run_until_ready()

    ce.pool.run("condor_rm", handle.batch_id)

    assert ce.reach(Presence.ENDED, handle).reason == "via condor_rm (by user pilots)"


def test_a_pilot_that_outlives_its_slot_is_removed(ce: CE) -> None:
    handle = ce.start(wall_time_s=1)

    assert ce.reach(Presence.ENDED, handle).reason == "it ran longer than 1 s"


def test_an_unreachable_schedd_is_an_error_and_ends_no_pilot(ce: CE) -> None:
    running, ended = ce.run_until_ready(), ce.start("exit0")
    ce.reach(Presence.ENDED, ended)
    ce.pool.run("condor_off", "-fast", "-schedd")
    wait_for(lambda: is_down(ce))

    backend, order = ce.backend(), ce.order()
    for ask in (
        backend.capacity, lambda: backend.status([running, ended]), lambda: backend.kill([running]),
        lambda: backend.submit([order]),
    ):  # fmt: skip
        with pytest.raises(BackendError, match=r"^(condor_\w+|sh) ended with exit code 1: "):
            ask()

    ce.pool.run("condor_on", "-schedd")
    wait_for(lambda: not is_down(ce))
    ce.reach(Presence.RUNNING, running)
    assert ce.state(ended).exit_code == 0
    assert len(ce.processes_of(running)) == 1
    assert ce.state(Handle(stamp=order.stamp)).presence is Presence.UNKNOWN


def is_down(ce: CE) -> bool:
    try:
        ce.pool.jobs()
    except AssertionError:
        return True
    return False


def with_programs(ce: CE, directory: Path, **programs: str) -> dict[str, object]:
    """Return options of a CE whose named programs are replaced by these scripts; {} in a script is the real program."""
    directory.mkdir(exist_ok=True)
    for real in ce.pool.programs.iterdir():
        (directory / real.name).symlink_to(real)
    for name, text in programs.items():
        (directory / name).unlink()
        program(directory / name, f"#!/bin/sh\n{text.format(ce.pool.programs / name)}\n")
    return {"programs": str(directory)}


def test_a_pilot_whose_answer_was_lost_is_found_by_its_stamp(ce: CE, tmp_path: Path) -> None:
    order = ce.order()
    dies = with_programs(ce, tmp_path / "dies", condor_submit='{} "$@" >/dev/null; kill -9 $$')

    (submission,) = ce.backend(**dies).submit([order])

    (job,) = ce.pool.jobs()
    assert submission == SubmitResult(stamp=order.stamp, batch_id=f"{job['ClusterId']}.{job['ProcId']}")


def test_a_pilot_whose_answer_was_lost_with_the_whole_host_is_not_submitted_twice(ce: CE, tmp_path: Path) -> None:
    running, ended = ce.order(), ce.order("exit0")
    marker = tmp_path / "gone"
    gone = with_programs(
        ce, tmp_path / "gone-programs", condor_submit=f'{{}} "$@" >/dev/null; touch {marker}; kill -9 $$',
        sh=f'[ ! -e {marker} ] || exit 1; {{}} "$@"',
    )  # fmt: skip

    submissions = ce.backend(**gone).submit([running, ended])
    assert submissions == [SubmitResult(stamp=running.stamp), SubmitResult(stamp=ended.stamp)]

    handles = [Handle(stamp=order.stamp) for order in (running, ended)]
    ce.reach(Presence.ENDED, handles[1])
    again = ce.backend().submit([running, ended])
    states = ce.backend().status(handles)
    assert [one.batch_id for one in again] == [states[handle.stamp].batch_id for handle in handles]
    assert all(one.batch_id for one in again)
    assert len(ce.pool.jobs()) == 1


def test_a_refused_pilot_stops_no_others_and_leaves_no_secret(ce: CE) -> None:
    backend = ce.backend(features={"broken": "Memory >"})
    good, refused = ce.order("exit0"), ce.order(tags=("broken",))

    submissions = backend.submit([refused, good])

    assert submissions[0].batch_id == ""
    assert "condor_submit" in submissions[0].error
    assert "Memory >" in submissions[0].error
    assert submissions[1].error == ""
    assert ce.reach(Presence.ENDED, Handle(stamp=good.stamp)).exit_code == 0
    assert ce.pool.run("sh", "-c", f"ls ~/wms-pilots/{refused.stamp}") == ""


def test_a_schedd_of_another_host_is_reached_through_ssh(ce: CE, tmp_path: Path) -> None:
    directory = tmp_path / "sshd"
    directory.mkdir()
    with ssh_host(directory) as host:
        backend = ce.backend(**host.options)
        order = ce.order("exit0")

        (submission,) = backend.submit([order])

        handle = Handle(stamp=order.stamp, batch_id=submission.batch_id)
        wait_for(lambda: backend.status([handle])[order.stamp].presence is Presence.ENDED)
        assert order.secret[::-1] in backend.output(handle)
        backend.kill([handle])
        backend.clean([handle])
        assert backend.capacity() >= 10
