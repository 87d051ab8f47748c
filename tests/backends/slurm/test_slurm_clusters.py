"""Pilots as jobs of real Slurm clusters: resources as the slot says, found again, ended, and never submitted twice."""

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from pilots.backends import slurm
from pilots.backends.interface import BackendError, BatchState, Presence, SubmitResult
from tests.backends.slurm.pilots import (
    SECRET,
    MakeBackend,
    await_presence,
    await_start,
    handle,
    jobs_of,
    order,
    send,
    state_of,
    wrapped,
)
from tests.cases import quick_cases
from tests.pace import wait_for
from tests.slurm import CORES, SlurmCluster
from tests.ssh import ssh_host


def test_a_pilot_installs_itself_runs_and_ends(make: MakeBackend, tmp_path: Path) -> None:
    backend, wanted = make(), order("exit0")
    batch_id = send(backend, wanted)
    directory = await_start(backend, wanted, tmp_path)
    assert await_presence(backend, wanted, Presence.ENDED) == BatchState(
        presence=Presence.ENDED, batch_id=batch_id, exit_code=0, reason="COMPLETED"
    )
    _, secret, where, command = (directory / "given").read_text().splitlines()
    assert secret == SECRET
    assert where == str(directory)
    assert "--vo lhcb --site CERN --ce ce01 --queue exit0" in command
    assert backend.output(handle(wanted)) == "a pilot writes\n"
    assert [path.name for path in directory.iterdir() if "secret" in path.name] == []


def test_the_secret_is_only_in_its_file(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    backend, wanted = make(), order(queue="short", wall_time_s=3600)  # it waits
    batch_id = send(backend, wanted)
    directory = tmp_path / "pilots" / wanted.stamp
    assert (directory / "secret").stat().st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    cluster.run("scontrol", "update", f"jobid={batch_id}", "timelimit=2")
    await_start(backend, wanted, tmp_path)
    seen = [cluster.run("scontrol", "show", "job", "-d", batch_id)]
    seen += [cluster.run("scontrol", "write", "batch_script", batch_id, "-"), backend.output(handle(wanted))]
    pilot = psutil.Process(int((directory / "given").read_text().splitlines()[0]))
    for process in [pilot, *pilot.parents(), *pilot.children(recursive=True)]:
        seen += [" ".join(process.cmdline())]
        if process.pid != 1 and process not in psutil.Process().parents():
            seen += [Path(f"/proc/{process.pid}/environ").read_text(errors="replace")]
    assert "wms-" in seen[0]
    assert not any(SECRET in text for text in seen)


def test_a_slot_is_rewritten_as_options_of_sbatch(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    backend = make(
        constraint="avx", features={"x86_64-el9": "el9", "x86_64-el8": "fast", "bigdisk": "fast"},
        submit_arguments=["--comment=a pilot", "--nice=5"],
    )  # fmt: skip
    wanted = order(
        processors=2, wall_time_s=601, memory_mb=300, gpus=1, disk_mb=500,
        platforms=("x86_64-el9", "x86_64-el8", "aarch64"), tags=("bigdisk", "unknown"),
    )  # fmt: skip
    shown = cluster.shown(send(backend, wanted))
    directory = str(tmp_path / "pilots" / wanted.stamp)
    expected = {
        "JobName": f"wms-{wanted.stamp}", "Partition": "main", "TimeLimit": "00:11:00", "NumTasks": "1",
        "CPUs/Task": "2", "MinMemoryNode": "300M", "MinTmpDiskNode": "500M", "TresPerNode": "gres:gpu:1",
        "Features": "avx&(el9|fast)&fast", "WorkDir": directory, "StdOut": f"{directory}/pilot.log",
        "StdErr": f"{directory}/pilot.log", "StdIn": "/dev/null", "Requeue": "0", "Nice": "5",
        "Command": f"{directory}/pilot.sh",
    }  # fmt: skip
    assert expected.items() <= shown.items()
    assert shown["Comment"] == "a"  # the rest is another word


def test_unset_slot_values_are_not_requested(make: MakeBackend, cluster: SlurmCluster) -> None:
    shown = cluster.shown(send(make(partition="short"), order(wall_time_s=None, memory_mb=0)))
    assert (shown["Partition"], shown["TimeLimit"], shown["Features"]) == ("short", "00:02:00", "(null)")
    assert shown["MinMemoryCPU"] == "100M"  # of the cluster; 0 would be all of it
    assert "TresPerNode" not in shown


def test_many_pilots_take_as_few_calls_as_one(make: MakeBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    backend = make()
    run = backend._commands.run

    def counted(*arguments: Any, **more: Any) -> str:
        calls.append(arguments)
        return run(*arguments, **more)

    monkeypatch.setattr(backend._commands, "run", counted)
    orders = [order() for _ in range(20)]
    submissions = backend.submit(orders)
    assert [one.stamp for one in submissions] == [one.stamp for one in orders]
    assert len({one.batch_id for one in submissions if one.batch_id.isdecimal()}) == 20
    assert len(calls) == 4
    calls.clear()
    states = backend.status([handle(one) for one in orders])
    assert {stamp: state.batch_id for stamp, state in states.items()} == {
        one.stamp: one.batch_id for one in submissions
    }
    assert len(calls) == 1


def test_an_empty_request_submits_nothing(make: MakeBackend) -> None:
    assert list(make().submit([])) == []
    assert make().status([]) == {}
    make().kill([])
    make().clean([])


def test_a_refused_pilot_does_not_stop_others(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    good, bad, also_good = order(), order(queue="nope"), order()
    submissions = make().submit([good, bad, also_good])
    assert [bool(one.batch_id) for one in submissions] == [True, False, True]
    assert submissions[1] == SubmitResult(
        stamp=bad.stamp,
        error="Slurm refused it: invalid partition specified: nope; "
        "Batch job submission failed: Invalid partition name specified.",
    )
    assert list((tmp_path / "pilots" / bad.stamp).iterdir()) == []
    assert jobs_of(cluster, bad) == []


def test_the_error_of_sbatch_is_reported(make: MakeBackend) -> None:
    (submission,) = make(submit_arguments=["--nonsense=1"]).submit([order()])
    assert (submission.batch_id, submission.error.partition(";")[0]) == (
        "", "Slurm refused it: unrecognized option '--nonsense=1'",
    )  # fmt: skip


@pytest.mark.parametrize(
    "ending",
    quick_cases(["kill -9 $PPID", "exec sleep 60", "echo 'sbatch: error: Socket timed out' >&2; exit 1"], quick=1),
)
def test_a_pilot_whose_answer_was_lost_is_found_by_its_stamp_and_not_submitted_twice(
    make: MakeBackend, cluster: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    programs = wrapped(tmp_path / "bin", "sbatch", f'/usr/bin/sbatch "$@" >/dev/null; {ending}')
    monkeypatch.setattr(slurm, "TIMEOUT_S", 1.0)
    wanted = order()
    assert list(make(programs=programs).submit([wanted])) == [SubmitResult(stamp=wanted.stamp)]
    (batch_id,) = jobs_of(cluster, wanted)
    assert state_of(make(), wanted).batch_id == batch_id
    assert send(make(), wanted) == batch_id
    assert jobs_of(cluster, wanted) == [batch_id]


def test_an_unsubmitted_pilot_is_not_reported_as_ended(make: MakeBackend) -> None:
    assert make().status([handle(order())]) == {}


@pytest.mark.parametrize(
    ("does", "exit_code", "reason"),
    [("exit0", 0, "COMPLETED"), ("exit3", 3, "FAILED: NonZeroExitCode"), ("killed", -9, "FAILED: ")],
)
def test_the_end_of_a_pilot_is_reported(make: MakeBackend, does: str, exit_code: int, reason: str) -> None:
    backend, wanted = make(), order(does)
    send(backend, wanted)
    state = await_presence(backend, wanted, Presence.ENDED)
    assert state.exit_code == exit_code
    assert state.reason.startswith(reason)


@pytest.mark.parametrize(("does", "exit_code"), [("exit3", 3), ("killed", -9)])
def test_an_end_missing_in_squeue_is_read_from_the_accounting(
    make: MakeBackend, tmp_path: Path, does: str, exit_code: int
) -> None:
    # As squeue is some minutes after the end of a job.
    forgetful = make(programs=wrapped(tmp_path / "bin", "squeue", "exit 0"))
    wanted = order(does)
    batch_id = send(make(), wanted)
    await_presence(make(), wanted, Presence.ENDED)
    wait_for(lambda: handle(wanted).stamp in forgetful.status([handle(wanted)]))
    state = state_of(forgetful, wanted)
    assert state == BatchState(presence=Presence.ENDED, batch_id=batch_id, exit_code=exit_code, reason="FAILED")
    assert send(forgetful, wanted) == batch_id


def test_a_pilot_that_lives_is_unknown_rather_than_ended_when_squeue_does_not_list_it(
    make: MakeBackend, tmp_path: Path
) -> None:
    wanted = order()
    send(make(), wanted)
    assert make(programs=wrapped(tmp_path / "bin", "squeue", "exit 0")).status([handle(wanted)]) == {}


def test_the_pending_reason_of_a_pilot_is_reported(make: MakeBackend) -> None:
    backend, too_long = make(), order(queue="short", wall_time_s=3600)
    send(backend, too_long)
    wait_for(lambda: state_of(backend, too_long).reason == "PartitionTimeLimit")
    assert state_of(backend, too_long).presence is Presence.WAITING
    hogs = [order(processors=CORES), order(processors=CORES)]
    backend.submit(hogs)
    await_presence(backend, hogs[0], Presence.RUNNING)
    wait_for(lambda: state_of(backend, hogs[1]).reason == "Resources")
    assert state_of(backend, hogs[1]).exit_code is None


def test_a_slot_of_the_partitions_whole_time_is_not_too_long(make: MakeBackend) -> None:
    backend, wanted = make(), order(queue="short", wall_time_s=120)
    send(backend, wanted)
    await_presence(backend, wanted, Presence.RUNNING)


def test_pilots_are_killed_by_their_stamps_whether_they_run_or_wait(
    make: MakeBackend, cluster: SlurmCluster, tmp_path: Path
) -> None:
    backend, runs, waits, stays = make(), order(), order(queue="short", wall_time_s=3600), order()
    backend.submit([runs, waits, stays])
    directory = await_start(backend, runs, tmp_path)
    await_start(backend, stays, tmp_path)
    pid = int((directory / "given").read_text().splitlines()[0])
    never_sent = order()
    backend.kill([handle(one) for one in (runs, waits, never_sent)])
    assert await_presence(backend, runs, Presence.ENDED).reason.startswith("CANCELLED")
    ended = await_presence(backend, waits, Presence.ENDED)
    assert (ended.exit_code, ended.reason) == (None, "CANCELLED: PartitionTimeLimit")
    wait_for(lambda: not psutil.pid_exists(pid))
    assert state_of(backend, stays).presence is Presence.RUNNING
    backend.kill([handle(runs)])  # it has ended; no mistake


def test_a_suspended_pilot_runs_and_is_killed(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    backend, wanted = make(), order()
    batch_id = send(backend, wanted)
    await_start(backend, wanted, tmp_path)
    cluster.run("scontrol", "suspend", batch_id)
    wait_for(lambda: state_of(backend, wanted).reason == "SUSPENDED")
    assert state_of(backend, wanted).presence is Presence.RUNNING
    backend.kill([handle(wanted)])
    await_presence(backend, wanted, Presence.ENDED)


def test_a_pilot_is_signalled_before_its_time_limit_and_then_ended(
    make: MakeBackend, cluster: SlurmCluster, tmp_path: Path
) -> None:
    backend, told, ended = make(), order(), order("stubborn")
    ids = [one.batch_id for one in backend.submit([told, ended])]
    for one in (told, ended):
        await_start(backend, one, tmp_path)
    # Slurm looks every 30 seconds.
    cluster.run("scontrol", "update", f"jobid={ids[0]}", "endtime=now+85")
    cluster.run("scontrol", "update", f"jobid={ids[1]}", "endtime=now+1")
    state = await_presence(backend, told, Presence.ENDED)
    assert (state.exit_code, state.reason) == (7, "FAILED: NonZeroExitCode")
    assert "was told to leave" in backend.output(handle(told))
    assert await_presence(backend, ended, Presence.ENDED).reason == "TIMEOUT: TimeLimit"


def test_a_lost_node_does_not_end_its_pilots(make: MakeBackend, cluster: SlurmCluster, tmp_path: Path) -> None:
    backend, wanted = make(), order()
    send(backend, wanted)
    await_start(backend, wanted, tmp_path)
    cluster.run("scontrol", "update", "nodename=localhost", "state=down", "reason=test")
    try:
        wait_for(lambda: state_of(backend, wanted).reason.startswith("NODE_FAIL"))
        assert state_of(backend, wanted).presence is Presence.UNKNOWN
    finally:
        with suppress(AssertionError):  # it may have come back by itself
            cluster.run("scontrol", "update", "nodename=localhost", "state=resume")
        cluster.wait_until_idle()


def test_an_unreachable_slurm_is_an_error_and_ends_no_pilot(
    make: MakeBackend, cluster: SlurmCluster, tmp_path: Path
) -> None:
    backend, wanted, later = make(), order(), order()
    send(backend, wanted)
    directory = await_start(backend, wanted, tmp_path)
    cluster.stop("slurmctld")
    try:
        for ask in (
            backend.capacity,
            lambda: backend.status([handle(wanted)]),
            lambda: backend.kill([handle(wanted)]),
            lambda: backend.submit([later]),
        ):
            with pytest.raises(BackendError, match="Unable to contact slurm controller"):
                ask()
        assert not (tmp_path / "pilots" / later.stamp).exists()
    finally:
        cluster.start("slurmctld")
        cluster.wait_until_idle()
    await_presence(backend, wanted, Presence.RUNNING)
    os.kill(int((directory / "given").read_text().splitlines()[0]), signal.SIGKILL)
    assert await_presence(backend, wanted, Presence.ENDED).exit_code == -9


def test_an_outage_of_slurm_stops_further_calls(make: MakeBackend, tmp_path: Path) -> None:
    words = "sbatch: error: Unable to contact slurm controller (connect failure)"
    script = (
        f"[ -e {tmp_path}/called ] && {{ echo '{words}' >&2; echo >> {tmp_path}/down; exit 1; }}\n"
        f'touch {tmp_path}/called; exec /usr/bin/sbatch "$@"'
    )
    orders = [order() for _ in range(4)]
    submissions = make(programs=wrapped(tmp_path / "bin", "sbatch", script)).submit(orders)
    assert submissions[0].batch_id
    assert submissions[1].error == "Slurm refused it: Unable to contact slurm controller (connect failure)."
    assert submissions[2:] == [SubmitResult(stamp=one.stamp) for one in orders[2:]]
    assert (tmp_path / "down").read_text() == "\n"


def test_capacity_is_idle_slots_plus_allowed_waiting(make: MakeBackend) -> None:
    backend, wanted = make(max_pending=3), order(processors=6)
    assert backend.capacity() == CORES + 3  # the node once, though it is in two partitions
    send(backend, wanted)
    await_presence(backend, wanted, Presence.RUNNING)
    assert backend.capacity() == 2 + 3
    backend.submit([order(queue="short", wall_time_s=3600) for _ in range(4)])
    wait_for(lambda: backend.capacity() == 1)
    assert make(max_pending=3, partition="main").capacity() == 2 + 3
    assert make(max_pending=0, partition="short").capacity() == 0


def test_an_unknown_partition_has_no_capacity(make: MakeBackend) -> None:
    with pytest.raises(BackendError, match='no node of the partition "nope"'):
        make(partition="nope").capacity()


def test_files_of_an_ended_pilot_are_removed_except_its_output(make: MakeBackend, tmp_path: Path) -> None:
    backend, wanted = make(), order("exit0")
    send(backend, wanted)
    await_presence(backend, wanted, Presence.ENDED)
    backend.clean([handle(wanted), handle(order())])
    assert {path.name for path in (tmp_path / "pilots" / wanted.stamp).iterdir()} == {"pilot.log"}
    assert backend.output(handle(wanted)) == "a pilot writes\n"


def test_a_directory_may_have_any_name(make: MakeBackend, tmp_path: Path) -> None:
    backend, wanted = make(directory=str(tmp_path / "my $HOME, it's big & *")), order("exit0")
    send(backend, wanted)
    await_presence(backend, wanted, Presence.ENDED)
    assert backend.output(handle(wanted)) == "a pilot writes\n"


def test_a_pilot_without_output_has_empty_output(make: MakeBackend) -> None:
    assert make().output(handle(order())) == ""


def test_two_clusters_report_only_their_own_pilots(
    make: MakeBackend, clusters: tuple[SlurmCluster, SlurmCluster], tmp_path: Path
) -> None:
    here, there = make(clusters[0]), make(clusters[1])
    first, second = order("exit3"), order()
    send(here, first)
    send(there, second)
    await_presence(here, first, Presence.ENDED)
    await_presence(there, second, Presence.RUNNING)
    assert there.status([handle(first)]) == {}
    assert here.status([handle(second)]) == {}
    here.kill([handle(second)])
    assert state_of(there, second).presence is Presence.RUNNING
    there.kill([handle(second)])
    await_presence(there, second, Presence.ENDED)


def test_pilots_reach_a_cluster_through_ssh(make: MakeBackend, tmp_path: Path) -> None:
    (tmp_path / "sshd").mkdir()
    with ssh_host(tmp_path / "sshd") as host:
        backend = make(**host.options)
        orders = [order("exit3"), order(), order(queue="nope")]
        submissions = backend.submit(orders)
        assert [bool(one.error) for one in submissions] == [False, False, True]
        assert await_presence(backend, orders[0], Presence.ENDED).exit_code == 3
        await_start(backend, orders[1], tmp_path)
        assert backend.output(handle(orders[1])) == "a pilot writes\n"
        backend.kill([handle(orders[1])])
        await_presence(backend, orders[1], Presence.ENDED)
        backend.clean([handle(one) for one in orders])
        assert backend.capacity() > 0
