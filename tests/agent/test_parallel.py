"""Several payloads on one node: the free resources that are offered, and the separation of the payloads."""

import os
import shlex
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.pilot import offer
from pilots.agent.pilot.offer import Resources
from pilots.agent.server.lease import LeasedJob, parse_job
from tests.agent.conftest import StartAgent
from tests.agent.running import ancestor_below, marker, processes_with
from tests.agent.scripted import Lease, ScriptedServer
from tests.cases import quick_cases

#: Of an agent, as the figures of the project say.
MAX_RSS_MB = 30


def node_with(server: ScriptedServer, *, processors: int, **more: Any) -> None:
    server.configuration["place"] |= {"processors": processors, "memory_mb": 8000, "disk_mb": 100} | more


def until_there(path: Path) -> str:
    """Return the arguments of a shell that ends when *path* exists."""
    return f"-c {shlex.quote(f'until [ -e {path} ]; do sleep 0.05; done')}"


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def finished(leases: Sequence[Lease]) -> list[int | None]:
    return [lease.finished["exit_code"] for lease in leases if lease.finished is not None]


def running(server: ScriptedServer, count: int) -> None:
    """Wait until this number of payloads runs."""
    server.wait_until(lambda: len([lease for lease in server.leases if lease.statuses and lease.heartbeats]) == count)


# ---- what is offered


def test_a_node_is_filled_with_parallel_payloads(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=4)
    # None of them ends unless all of them run.
    meet = 'touch {me}; until [ "$(ls {all} | wc -l)" = 4 ]; do sleep 0.05; done'
    (tmp_path / "met").mkdir()
    (tmp_path / "met").chmod(0o777)
    for number in range(4):
        script = meet.format(me=tmp_path / "met" / str(number), all=tmp_path / "met")
        server.add_job("/bin/sh", f"-c {shlex.quote(script)}")

    agent = start()

    assert agent.wait() == 0, agent.log
    assert finished(server.leases) == [0, 0, 0, 0]
    assert server.requests_to("/matches/")[0].body["max_jobs"] == 4
    assert list(agent.work.iterdir()) == []
    assert server.leaving == ["no job for me"]


def test_only_free_resources_are_offered(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=4, gpus=2)
    go = tmp_path / "go"
    server.configuration["match_retry_after_s"] = 0.1
    server.add_job("/bin/sh", until_there(go), processors=2, memory_mb=3000, gpus=1, disk_mb=40)
    agent = start(environment={"CUDA_VISIBLE_DEVICES": "5,3"})
    server.wait_until(lambda: len(server.requests_to("/matches/")) >= 2)
    server.add_job("/bin/sh", until_there(go), processors=2, memory_mb=1000)
    running(server, 2)
    asked = len(server.requests_to("/matches/"))
    server.wait_until(lambda: len(server.leases[1].heartbeats) >= 5)
    assert len(server.requests_to("/matches/")) == asked

    go.touch()

    assert agent.wait() == 0, agent.log
    offers = [seen.body for seen in server.requests_to("/matches/")]
    first, second, last = offers[0], offers[1], offers[-1]
    named = ("processors", "memory_mb", "gpus", "max_jobs")
    assert [first[name] for name in named] == [4, 8000, 2, 4]
    assert [second[name] for name in named] == [2, 5000, 1, 2]
    assert (first["disk_mb"], second["disk_mb"]) == (100, 60)
    assert [last[name] for name in named] == [4, 8000, 2, 4]


def slot(**told: int) -> Resources:
    amounts: dict[str, Any] = {"processors": 4, "memory_mb": 8000, "gpus": 0, "disk_mb": 100} | told
    lists: dict[str, Any] = {"platforms": (), "tags": (), "required_tags": ()}
    return Resources(cpu_time_s=300_000, wall_time_s=None, container=False, **amounts, **lists)


def job(**asked: int) -> LeasedJob:
    return parse_job({"id": 1, "executable": "true", **asked})


@pytest.mark.parametrize(
    ("jobs", "useful"),
    [
        ([], True),
        ([job(processors=3, memory_mb=7999)], True),
        ([job(processors=4)], False),
        ([job(processors=5)], False),
        ([job(memory_mb=8000)], False),
        ([job(memory_mb=9000)], False),
    ],
)
def test_another_job_needs_a_processor_and_some_memory(jobs: list[LeasedJob], useful: bool) -> None:
    left = offer.left_of(slot(), jobs, free_disk_mb=100)
    assert offer.is_useful(left, slot=slot()) is useful
    assert left.memory_mb >= 0


def test_a_slot_without_memory_takes_jobs_without_memory_requirement() -> None:
    nothing = slot(memory_mb=0)
    assert offer.is_useful(offer.left_of(nothing, [job()], free_disk_mb=0), slot=nothing)


@pytest.mark.parametrize(("free_mb", "left_mb"), [(100, 70), (75, 70), (65, 65), (0, 0)])
def test_disk_used_by_running_jobs_is_counted_once(free_mb: int, left_mb: int) -> None:
    assert offer.left_of(slot(), [job(disk_mb=30)], free_disk_mb=free_mb).disk_mb == left_mb


def test_each_payload_has_gpus_of_its_own(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=4, gpus=3)
    show = "echo $CUDA_VISIBLE_DEVICES; until [ -e {} ]; do sleep 0.05; done".format(tmp_path / "go")
    for gpus in (1, 2):
        server.add_job("/bin/sh", f"-c {shlex.quote(show)}", gpus=gpus)
    agent = start(environment={"CUDA_VISIBLE_DEVICES": "5,3,1"})
    running(server, 2)
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert [lease.files()["std.out"] for lease in server.leases] == ["5\n", "3,1\n"]


def test_all_jobs_of_a_pilot_count_whether_side_by_side_or_not(server: ScriptedServer, start: StartAgent) -> None:
    node_with(server, processors=2)
    for _ in range(5):
        server.add_job("true")

    assert start("--max-jobs", "3").wait() == 0

    assert len(server.leases) == 3
    assert finished(server.leases) == [0, 0, 0]
    assert server.leaving == ["3 jobs done, as many as wanted"]


def test_a_pilot_one_of_whose_payloads_runs_is_not_idle(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    node_with(server, processors=2)
    server.configuration["match_retry_after_s"] = 0.1
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start("--max-idle-s", "0")
    server.wait_until(lambda: len(server.requests_to("/matches/")) >= 4)
    server.add_job("true")
    server.wait_until(lambda: finished(server.leases) == [0])
    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert finished(server.leases) == [0, 0]


# ---- none touches another


def test_a_kill_command_ends_one_payload_only(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=2)
    mark = marker()
    server.add_job("/bin/sh", f"-c 'setsid sh -c \"sleep {mark}; sleep {mark}\"; sleep {mark}'")
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start("--grace-s", "0.3")
    running(server, 2)
    killed, other = server.leases
    with server.changed:
        killed.commands.append({"id": 4, "name": "kill", "arguments": {}})
    server.wait_until(lambda: killed.finished)
    assert processes_with(mark) == []
    assert finished([other]) == []
    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert finished([other]) == [0]


@pytest.mark.parametrize("supervisor_helps", quick_cases([True, False], quick=1))
def test_a_job_whose_process_is_killed_is_handed_back_and_the_others_go_on(
    server: ScriptedServer, start: StartAgent, tmp_path: Path, supervisor_helps: bool
) -> None:
    node_with(server, processors=2)
    mark = marker()
    server.add_job("/bin/sh", f"-c \"trap '' TERM; setsid sh -c 'sleep {mark}; sleep {mark}'; sleep {mark}\"")
    server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start()
    running(server, 2)
    server.wait_until(lambda: processes_with(mark))
    alive_when_handed_back: list[int] = []

    worker = ancestor_below(agent.process.pid, processes_with(mark)[0])
    if not supervisor_helps:
        os.kill(children(worker)[0], signal.SIGSTOP)
    os.kill(worker, signal.SIGKILL)
    server.wait_until(lambda: server.leases[0].finished)
    alive_when_handed_back += processes_with(mark)
    (tmp_path / "go").touch()

    assert agent.wait() == 0, agent.log
    assert alive_when_handed_back == []
    assert server.leases[0].finished is not None
    assert server.leases[0].finished["exit_code"] == 222
    assert server.leases[0].finished["minor_status"] == "The pilot's process for the job was ended by SIGKILL"
    assert server.leases[1].finished is not None
    assert server.leases[1].finished["exit_code"] == 0
    assert 'job.process_died job=1 how="was ended by SIGKILL"' in agent.log
    assert list(agent.work.iterdir()) == []
    assert server.leaving == ["no job for me"]


def test_a_dead_process_removes_no_files_of_another_pilot(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    mark = marker()
    server.add_job("sleep", mark)
    others = tmp_path / "work" / "wms-job-1-others"
    others.mkdir(parents=True)
    agent = start()
    running(server, 1)
    server.poll(lambda: processes_with(mark))

    os.kill(ancestor_below(agent.process.pid, processes_with(mark)[0]), signal.SIGKILL)

    assert agent.wait() == 0
    assert list(agent.work.iterdir()) == [others]


def test_a_killed_pilot_leaves_no_processes_or_files(server: ScriptedServer, start: StartAgent) -> None:
    node_with(server, processors=3)
    mark = marker()
    for _ in range(3):
        server.add_job("/bin/sh", f"-c \"trap '' TERM; setsid sh -c 'sleep {mark}; sleep {mark}' & sleep {mark}\"")
    agent = start()
    running(server, 3)
    workers = children(agent.process.pid)
    assert len(workers) == 3
    server.poll(lambda: len(processes_with(mark)) >= 3)

    agent.process.kill()
    agent.process.wait()

    server.poll(lambda: not processes_with(mark) and not any(Path(f"/proc/{pid}").exists() for pid in workers))


def test_each_process_of_a_pilot_uses_little_memory(server: ScriptedServer, start: StartAgent, tmp_path: Path) -> None:
    node_with(server, processors=2)
    for _ in range(2):
        server.add_job("/bin/sh", until_there(tmp_path / "go"))
    agent = start(packed=True)
    running(server, 2)
    pids = [agent.process.pid, *children(agent.process.pid)]
    statuses = [Path(f"/proc/{pid}/status").read_text().split("VmRSS:")[1].split()[0] for pid in pids]
    (tmp_path / "go").touch()

    assert agent.wait() == 0
    assert len(pids) == 3
    assert all(int(kilobytes) / 1024 < MAX_RSS_MB for kilobytes in statuses)
