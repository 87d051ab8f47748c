"""Slots as batch systems describe them, and the pilot's offer made from them; Slurm is a real one."""

import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.base.clock import monotonic
from pilots.agent.node import batch_system
from pilots.agent.node.batch_system import Allocation, BatchSystem
from pilots.agent_package import agent_package
from tests.agent.conftest import StartAgent
from tests.agent.running import INTERPRETERS
from tests.agent.scripted import PILOT_TOKEN, ScriptedServer
from tests.pace import wait_for
from tests.slurm import SlurmCluster, slurm_cluster

NOW = 1_800_000_000.0


def left_s(allocation: Allocation) -> float:
    assert allocation.ends_at is not None
    return allocation.ends_at - monotonic()


# ---- names


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"SLURM_JOB_ID": "77", "JOB_ID": "1"}, "77"),
        ({"PBS_JOBID": "12.server"}, "12.server"),
        ({"LSB_JOBID": "5"}, "5"),
        ({"OAR_JOB_ID": "6"}, "6"),
        ({"JOB_ID": "9"}, "9"),
        ({"SLURM_JOB_ID": ""}, "wms-1"),
        ({"_CONDOR_JOB_AD": "/absent", "_CONDOR_SLOT": "slot1"}, "slot1"),
        ({}, "wms-1"),
    ],
)
def test_a_pilot_is_named_by_its_batch_id_or_its_stamp(environment: Mapping[str, str], name: str) -> None:
    assert batch_system.id_in_batch_system(environment, stamp="wms-1") == name


# ---- Slurm


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        ("0:00", 0),
        ("59:59", 3599),
        ("1:00:00", 3600),
        ("2-03:04:05", 183_845),
        (" 10:00\n", 600),
        ("UNLIMITED", math.inf),
        ("NOT_SET", None),
        ("INVALID", None),
        ("", None),
        ("-5:00", None),
    ],
)
def test_lengths_of_time_are_read_as_slurm_writes_them(told: str, seconds: float | None) -> None:
    assert batch_system.seconds_of(told) == seconds


@pytest.mark.parametrize(
    ("environment", "processors", "memory_mb"),
    [
        ({"SLURM_CPUS_ON_NODE": "8", "SLURM_CPUS_PER_TASK": "4", "SLURM_MEM_PER_NODE": "4000"}, 8, 4000),
        ({"SLURM_CPUS_PER_TASK": "4", "SLURM_MEM_PER_CPU": "500"}, 4, 2000),
        ({"SLURM_MEM_PER_CPU": "500"}, None, None),
        ({"SLURM_MEM_PER_NODE": "0"}, None, None),
        ({"SLURM_CPUS_ON_NODE": "all"}, None, None),
    ],
)
def test_cores_and_memory_are_read_from_slurm_variables(
    environment: dict[str, str], processors: int | None, memory_mb: int | None
) -> None:
    assert batch_system.slurm_processors(environment) == processors
    assert batch_system.slurm_memory_mb(environment) == memory_mb


def test_without_slurm_commands_the_end_time_comes_from_the_variable() -> None:
    environment = {"SLURM_JOB_ID": "7", "PATH": "/nonexistent"}
    assert BatchSystem(environment).allocation() == Allocation()
    known = BatchSystem({**environment, "SLURM_JOB_END_TIME": str(int(time.time()) + 1000)})
    assert 990 < left_s(known.allocation()) <= 1000


def test_the_last_known_end_time_is_kept_while_slurm_does_not_answer(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text("#!/bin/sh\necho 10:00\n")
    squeue.chmod(0o755)
    system = BatchSystem({"SLURM_JOB_ID": "7", "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    first = system.allocation()
    squeue.write_text("#!/bin/sh\necho 'slurm_load_jobs error: Unable to contact slurm controller' >&2\nexit 1\n")
    assert system.allocation() == first
    squeue.write_text("#!/bin/sh\necho UNLIMITED\n")
    assert system.allocation().usable_until(started_at=0) is None


@pytest.fixture(scope="module")
def cluster() -> Iterator[SlurmCluster]:
    directory = Path(tempfile.mkdtemp(prefix="wms-slurm-"))
    try:
        with slurm_cluster("sitea", directory) as cluster:
            yield cluster
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _submit(cluster: SlurmCluster, directory: Path, server: ScriptedServer, *options: str) -> str:
    """Submit a pilot as a batch job; return the job's id."""
    (directory / "agent.pyz").write_bytes(agent_package().content)
    (directory / "token").write_text(PILOT_TOKEN)
    (directory / "token").chmod(0o600)
    script = directory / "pilot"
    agent = f"exec {INTERPRETERS[-1]} agent.pyz --server {server.url} --token-file token --work-dir . --speed 1"
    script.write_text(f"#!/bin/sh\n{agent} --max-idle-s 1000\n")
    where = ("--chdir", str(directory), "--output", "log", "--parsable")
    return cluster.run("sbatch", *where, *options, str(script)).strip()


def test_a_pilot_in_a_job_of_slurm_offers_what_slurm_gives(
    cluster: SlurmCluster, server: ScriptedServer, tmp_path: Path
) -> None:
    server.configuration["place"] |= {"processors": 8, "memory_mb": 64_000, "cpu_time_s": 300_000}
    job = _submit(cluster, tmp_path, server, "--time=10", "--cpus-per-task=1", "--mem=300")
    try:
        server.wait_until(lambda: server.requests_to("/matches/"), timeout_s=60)
    finally:
        cluster.run("scancel", job)

    offer = server.requests_to("/matches/")[0].body
    assert server.node_reports[0]["batch_id"] == job
    assert (offer["processors"], offer["memory_mb"]) == (1, 300)
    # Ten minutes but for a tenth at the end, and what it took to come so far.
    assert 450 < offer["wall_time_s"] <= 541
    assert 450 < offer["cpu_time_s"] <= 541


def test_an_extended_slurm_time_limit_is_used(cluster: SlurmCluster, server: ScriptedServer, tmp_path: Path) -> None:
    server.configuration["match_retry_after_s"] = 100
    job = _submit(cluster, tmp_path, server, "--time=10")
    try:
        server.wait_until(lambda: server.requests_to("/matches/"), timeout_s=60)
        system = BatchSystem({**os.environ, **cluster.environment, "SLURM_JOB_ID": job})
        before = system.allocation()
        cluster.run("scontrol", "update", f"JobId={job}", "TimeLimit=30")
        after = system.allocation()
        left = left_s(before)
    finally:
        cluster.run("scancel", job)

    assert 0 < left <= 600
    assert 1190 < (after.ends_at or 0) - (before.ends_at or 0) < 1210


def test_a_pilot_ended_by_slurm_reports_it(cluster: SlurmCluster, server: ScriptedServer, tmp_path: Path) -> None:
    server.configuration["match_retry_after_s"] = 100
    job = _submit(cluster, tmp_path, server, "--time=10")
    server.wait_until(lambda: server.requests_to("/matches/"), timeout_s=60)

    cluster.run("scancel", job)

    server.wait_until(lambda: server.leaving)
    assert server.leaving == ["stopped by SIGTERM"]
    wait_for(lambda: not cluster.run("squeue", "--noheader", "--jobs", job).strip())


# ---- HTCondor


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        ({}, None),
        ({"allowedjobduration": "3600", "jobcurrentstartdate": str(int(NOW) - 600)}, 3000),
        ({"allowedjobduration": "3600"}, 3500),
        ({"allowedexecuteduration": "3600", "jobcurrentstartexecutingdate": str(int(NOW) - 60)}, 3540),
        ({"maxwalltime": "10", "jobcurrentstartdate": str(int(NOW))}, 600),
        ({"maxwalltimemins": "10", "maxruntime": "500", "jobcurrentstartdate": str(int(NOW))}, 500),
        ({"allowedjobduration": "undefined", "jobleaseduration": "2400"}, None),
    ],
)
def test_limits_are_read_from_the_htcondor_job_ad(job: dict[str, str], seconds: float | None) -> None:
    assert batch_system.condor_left_s(job, now=NOW, began_at=NOW - 100) == seconds


def test_cores_and_memory_are_read_from_htcondor_job_and_machine_ads(tmp_path: Path) -> None:
    job, machine = tmp_path / ".job.ad", tmp_path / ".machine.ad"
    job.write_text(f"ClusterId = 12\nProcId = 3\nAllowedJobDuration = 1000\nJobCurrentStartDate = {int(time.time())}\n")
    machine.write_text('Name = "slot1@node"\nCpus = 4\nMemory = 2048\nTotalCpus = 64.0\n')
    environment = {"_CONDOR_JOB_AD": str(job), "_CONDOR_MACHINE_AD": str(machine)}

    allocation = BatchSystem(environment).allocation()

    assert (allocation.processors, allocation.memory_mb) == (4, 2048)
    assert 990 < left_s(allocation) <= 1000
    assert batch_system.id_in_batch_system(environment) == "12.3"


def test_the_offer_of_a_pilot_in_htcondor_is_no_more_than_its_slot(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    machine = tmp_path / ".machine.ad"
    machine.write_text("Cpus = 1\nMemory = 100\n")
    server.configuration["place"]["processors"] = 8
    start(environment={"_CONDOR_MACHINE_AD": str(machine)}).wait()
    offer: dict[str, Any] = server.requests_to("/matches/")[0].body
    assert (offer["processors"], offer["memory_mb"]) == (1, 100)
