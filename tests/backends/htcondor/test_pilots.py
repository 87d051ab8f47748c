"""Pilots in a real HTCondor pool: submitted once, monitored, and ended in every way."""

from dataclasses import replace
from typing import Any

import pytest

from pilots.backends.interface import BatchQueue, BatchRequest, BatchState, Handle, Presence
from tests.backends.htcondor.conftest import CE
from tests.pace import wait_for

#: HTCondor runs in a root directory of its own.
pytestmark = pytest.mark.root


def test_a_pilot_installs_itself_runs_and_ends_with_its_exit_code(ce: CE) -> None:
    order = ce.order("exit7", wall_time_s=3600)
    (submission,) = ce.backend().submit([order])

    handle = Handle(stamp=order.stamp, batch_id=submission.batch_id)
    assert ce.reach(Presence.ENDED, handle) == BatchState(
        presence=Presence.ENDED, batch_id=submission.batch_id, exit_code=7
    )
    output = ce.backend().output(handle)
    assert f"backwards {order.secret[::-1]} 0o600" in output
    assert f"--site CERN --ce {order.ce} --queue exit7 --stamp {order.stamp}" in output
    assert "--work-dir . --max-idle-s 300 --wall-time-s 3600" in output


def test_a_pilot_that_a_signal_ended_has_its_negative_number(ce: CE) -> None:
    assert ce.reach(Presence.ENDED, ce.start("dies")).exit_code == -9


def test_the_output_of_a_running_pilot_can_be_read(ce: CE) -> None:
    handle = ce.run_until_ready()

    wait_for(lambda: "ready" in ce.backend().output(handle))


def test_many_pilots_are_one_submission_each_with_its_own_secret(ce: CE) -> None:
    orders = [ce.order("exit0") for _ in range(5)]

    submissions = ce.backend().submit(orders)

    assert [one.stamp for one in submissions] == [order.stamp for order in orders]
    clusters, processes = zip(*(one.batch_id.split(".") for one in submissions), strict=True)
    assert (len(set(clusters)), list(processes)) == (1, ["0", "1", "2", "3", "4"])
    for order, submission in zip(orders, submissions, strict=True):
        handle = Handle(stamp=order.stamp, batch_id=submission.batch_id)
        assert ce.reach(Presence.ENDED, handle).batch_id == submission.batch_id
        assert order.secret[::-1] in ce.backend().output(handle)


def test_the_secret_is_in_no_attribute_no_command_line_and_no_environment(ce: CE) -> None:
    order = ce.order()
    ce.backend().submit([order])
    wait_for(lambda: ce.is_ready(Handle(stamp=order.stamp)))

    shown = [ce.pool.run("condor_q", "-l"), ce.pool.run("condor_status", "-l")]
    for process in ce.pool.processes():
        for name in ("cmdline", "environ"):
            try:
                shown.append((process / name).read_text(errors="replace"))
            except OSError:  # it has just ended
                continue
    assert order.stamp in "".join(shown)
    assert order.secret not in "".join(shown)


def test_the_slot_is_translated_to_htcondor_requests(ce: CE) -> None:
    ce.start(
        processors=2, memory_mb=1500, disk_mb=700, gpus=1, wall_time_s=3601, platforms=("el9", "el8", "other"),
        tags=("cvmfs", "unknown"),
        options={
            "requirements": "Memory > 10", "attributes": {"AccountingGroup": '"grid $(x) \\"y\\""'},
            "features": {"el9": 'OpSysAndVer == "AlmaLinux9"', "el8": "OpSysMajorVer == 8", "cvmfs": "HasCVMFS"},
        },
    )  # fmt: skip

    (job,) = ce.pool.jobs()
    asked = {name: job[name] for name in ("RequestCpus", "RequestMemory", "RequestDisk", "RequestGPUs", "MaxWallTime")}
    assert asked == {
        "RequestCpus": 2, "RequestMemory": 1500, "RequestDisk": 700 * 1024, "RequestGPUs": 1, "MaxWallTime": 61,
    }  # fmt: skip
    # A job that is removed gracefully is gone from the queue before its processes are.
    assert job["WantGracefulRemoval"] is False
    assert str(job["JobBatchName"]) == f"wms-{job['WmsStamp']}"
    assert job["AccountingGroup"] == 'grid $(x) "y"'
    assert '(Memory > 10) && ((OpSysAndVer == "AlmaLinux9") || (OpSysMajorVer == 8)) && (HasCVMFS)' in ce.pool.run(
        "condor_q", "-af:r", "Requirements"
    )


def test_a_pilot_that_no_slot_fits_waits_with_htcondors_reason(ce: CE) -> None:
    handle = ce.start(memory_mb=10**6)

    wait_for(lambda: ce.state(handle).reason)
    assert ce.state(handle) == BatchState(presence=Presence.WAITING, batch_id=handle.batch_id, reason="no match found")


def test_free_slots_are_unclaimed_cores_and_what_may_wait(ce: CE) -> None:
    wait_for(lambda: ce.backend(max_pending=3).capacity() == 4 + 3)  # those of the test before have come back
    assert ce.backend(max_pending=3, requirements="target.Memory > 10").capacity() == 4 + 3
    assert ce.backend(max_pending=3, requirements="Memory < 10").capacity() == 0 + 3

    ce.run_until_ready(processors=2)
    wait_for(lambda: ce.backend(max_pending=0).capacity() == 2)
    _, held, *_ = ce.backend().submit([ce.order(memory_mb=10**6) for _ in range(4)])
    ce.pool.run("condor_hold", held.batch_id)
    assert ce.backend(max_pending=3).capacity() == 2 + 3 - 4
    assert ce.backend(max_pending=1).capacity() == 0


#: What a pilot asks for, and how many such slots are free beside a pilot with two cores and 1024 MB.
FREE: list[tuple[dict[str, Any], int]] = [
    ({}, 2), ({"processors": 2}, 1), ({"processors": 3}, 0), ({"memory_mb": 3072}, 1), ({"memory_mb": 3073}, 0),
    ({"memory_mb": 1000}, 2), ({"gpus": 1}, 0), ({"disk_mb": 10**9}, 0), ({"disk_mb": 1}, 2),
]  # fmt: skip


def test_free_slots_are_counted_by_pilot_requests(ce: CE) -> None:
    ce.run_until_ready(processors=2, memory_mb=1024)
    wait_for(lambda: ce.backend(max_pending=0).capacity() == 2)
    queues = [BatchQueue(slot=BatchRequest(queue="any", **slot), cpu_time_s=1) for slot, _ in FREE]

    def capacities(max_pending: int) -> list[int]:
        shaped = [CE(pool=ce.pool, description=replace(ce.description, queues=(queue,))) for queue in queues]
        return [each.backend(max_pending=max_pending).capacity() for each in shaped]

    wait_for(lambda: capacities(0) == [free for _, free in FREE], state=lambda: capacities(0))
    # Three more may wait.
    wait_for(lambda: capacities(3) == [free + 3 for _, free in FREE], state=lambda: capacities(3))


def test_unsubmitted_pilots_are_unknown(ce: CE) -> None:
    assert ce.backend().status([Handle(stamp="nobody"), Handle(stamp="none", batch_id="1.0")]) == {}


def test_cleaning_keeps_the_output(ce: CE) -> None:
    handle = ce.start("exit0")
    ce.reach(Presence.ENDED, handle)

    ce.backend().clean([handle])

    assert "ready" in ce.backend().output(handle)
    assert ce.pool.run("sh", "-c", f"ls ~/wms-pilots/{handle.stamp}").split() == ["pilot.log"]


@pytest.mark.parametrize("queue", ["sleep", "stubborn"])
def test_a_pilot_is_killed(ce: CE, queue: str) -> None:
    handle = ce.run_until_ready(queue)

    ce.backend().kill([handle])

    assert ce.reach(Presence.ENDED, handle).reason.startswith("via condor_rm")
    wait_for(lambda: ce.processes_of(handle) == [])


def test_waiting_ended_and_unknown_pilots_are_killed_in_one_call(ce: CE) -> None:
    waiting, ended = ce.start(memory_mb=10**6), ce.start("exit0")
    ce.reach(Presence.ENDED, ended)

    for _ in range(2):
        ce.backend().kill([waiting, ended, Handle(stamp="nobody")])

    assert ce.state(waiting).presence is Presence.ENDED
    assert ce.state(ended).exit_code == 0
