"""The check of the node before the first job: its properties, reasons to refuse it, its speed."""

import os
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.node import benchmark, cgroups, inspection, site_environment
from pilots.agent.node.site_environment import ENOUGH_MB, Scratch, best_scratch
from tests.agent.conftest import StartAgent
from tests.agent.scripted import ScriptedServer


def facts(server: ScriptedServer) -> dict[str, Any]:
    told: dict[str, Any] = server.node_reports[0]["node"]
    return told


# ---- what the site offers


def test_cvmfs_repositories_are_the_mounted_and_formerly_mounted_ones(tmp_path: Path) -> None:
    for name in ("atlas.cern.ch", "cvmfs-config.cern.ch", "README"):
        (tmp_path / name).mkdir()
    mounts = f"proc /proc proc rw 0 0\ncvmfs2 {tmp_path}/lhcb.cern.ch fuse ro 0 0\ncvmfs2 {tmp_path}2/x.y fuse ro 0 0\n"
    mounts += f"nfs {tmp_path}/lhcb.cern.ch/lib nfs ro 0 0\n"

    found = site_environment.repositories(tmp_path, mounts=mounts)

    assert found == ["atlas.cern.ch", "cvmfs-config.cern.ch", "lhcb.cern.ch"]
    assert site_environment.repositories(tmp_path / "none", mounts="") == []


def test_scratch_directories_are_named_by_their_variables(tmp_path: Path) -> None:
    environment = {"TMPDIR": str(tmp_path), "_CONDOR_SCRATCH_DIR": str(tmp_path / "none"), "SCRATCH": "relative"}

    condor, temporary, *others = site_environment.scratch_directories(environment)

    assert (condor.variable, condor.flaw) == ("_CONDOR_SCRATCH_DIR", "cannot be written to: No such file or directory")
    assert (temporary.variable, temporary.path, temporary.flaw) == ("TMPDIR", tmp_path, None)
    assert temporary.free_mb > 0
    assert {one.path for one in others} <= {Path("/tmp"), Path("/var/tmp")}


def scratch(name: str, *, free_mb: float = 10_000, flaw: str | None = None) -> Scratch:
    return Scratch(Path("/", name), name, free_mb=free_mb, flaw=flaw)


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ([scratch("own"), scratch("roomier", free_mb=10**6)], "own"),
        ([scratch("own", flaw="is full"), scratch("tmp")], "tmp"),
        ([scratch("own", free_mb=ENOUGH_MB - 1), scratch("tmp")], "tmp"),
        ([scratch("own", free_mb=1), scratch("tmp", free_mb=2)], "tmp"),
    ],
)
def test_the_best_scratch_is_the_first_with_room(candidates: list[Scratch], best: str) -> None:
    assert best_scratch(candidates) == Path("/", best)


def test_without_usable_scratch_a_directory_is_reported() -> None:
    assert best_scratch([scratch("own", flaw="is full")]).is_dir()


def test_without_an_option_the_pilot_works_in_the_batch_scratch_directory(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    server.add_job("pwd")
    start(work_dir=False, environment={"_CONDOR_SCRATCH_DIR": str(own), "TMPDIR": str(tmp_path)}).wait()
    assert facts(server)["work_directory"] == str(own)
    assert server.lease.files()["std.out"].startswith(f"{own}/")
    assert [one["variable"] for one in facts(server)["scratch"]][:2] == ["_CONDOR_SCRATCH_DIR", "TMPDIR"]


# ---- containers


def runtime(directory: Path, script: str) -> dict[str, str]:
    """Return the environment of a node whose container runtime is this script."""
    (directory / "bin").mkdir()
    program = directory / "bin" / "apptainer"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{directory / 'bin'}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("script", "promised", "exit_code", "detail"),
    [
        ("echo apptainer version 1.3.0", True, 0, "apptainer version 1.3.0"),
        ("exit 1", None, 0, "/bin/apptainer does not run"),
        ("exit 1", True, 1, "/bin/apptainer does not run"),
    ],
)
def test_a_node_without_containers_is_unfit_where_the_queue_promises_them(
    server: ScriptedServer,
    start: StartAgent,
    tmp_path: Path,
    script: str,
    promised: bool | None,
    exit_code: int,
    detail: str,
) -> None:
    server.configuration["place"]["container"] = promised

    assert start(environment=runtime(tmp_path, script)).wait() == exit_code

    (check,) = (check for check in server.node_reports[0]["checks"] if check["name"] == "container")
    assert check["detail"].endswith(detail)
    assert check["ok"] is (exit_code == 0)
    assert isinstance(facts(server)["user_namespaces"], bool)
    assert bool(server.requests_to("/matches/")) is (exit_code == 0)


def test_a_node_without_containers_gets_no_jobs_of_a_container_queue(
    server: ScriptedServer, start: StartAgent, tmp_path: Path
) -> None:
    server.configuration["place"]["container"] = True
    server.add_job("true")

    assert start(environment={"PATH": str(tmp_path)}).wait() == 1

    assert server.leases == []
    assert {"name": "container", "ok": False, "detail": "there is no apptainer or singularity"} in (
        server.node_reports[0]["checks"]
    )


# ---- cores


@pytest.mark.parametrize(
    ("membership", "files", "cores"),
    [
        ("0::/slurm/job_7\n", {"slurm/job_7/cpu.max": "200000 100000", "slurm/cpu.max": "max 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/\n", {"cpu.max": "max 100000"}, None),
        ("0::/\n", {}, None),
        ("3:cpu,cpuacct:/j\n", {"cpu/j/cpu.cfs_quota_us": "400000", "cpu/j/cpu.cfs_period_us": "100000"}, 4),
        ("3:cpu:/j\n", {"cpu/j/cpu.cfs_quota_us": "-1", "cpu/j/cpu.cfs_period_us": "100000"}, None),
        ("0::/\n", {"cpu.max": "100000 0"}, None),
    ],
)
def test_the_quota_of_cores_is_that_of_the_control_groups(
    tmp_path: Path, membership: str, files: dict[str, str], cores: float | None
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content + "\n")

    assert cgroups.processor_quota(membership, tmp_path) == cores


def test_there_are_no_more_cores_than_the_pilot_may_run_on() -> None:
    assert 1 <= inspection.usable_processors() <= len(os.sched_getaffinity(0))


# ---- speed


def test_the_benchmark_always_does_the_same_work() -> None:
    assert benchmark.unit_of_work() == benchmark.unit_of_work() == 349_431


def test_the_speed_is_measured_once() -> None:
    first = benchmark.measured()
    assert benchmark.measured() is first
    assert first.units_per_s is not None
    assert benchmark.SLOWEST <= first.factor <= benchmark.FASTEST


@pytest.mark.parametrize(("measured", "factor"), [(0.001, 0.2), (1.23456, 1.235), (100, 5.0)])
def test_the_measured_speed_is_clipped(measured: float, factor: float) -> None:
    assert benchmark.clipped(measured) == factor


def test_the_measured_or_given_speed_is_reported(server: ScriptedServer, start: StartAgent) -> None:
    start("--speed", "1.5").wait()
    assert (facts(server)["speed"], facts(server)["benchmark_units_per_s"]) == (1.5, None)
    server.node_reports.clear()
    start(measured=True).wait()
    assert facts(server)["benchmark_units_per_s"] > 0
    assert 0.2 <= facts(server)["speed"] <= 5


@pytest.mark.parametrize("told", ["0", "-1", "nan", "inf", "fast"])
def test_an_invalid_speed_is_a_usage_error(start: StartAgent, told: str) -> None:
    assert start("--speed", told).wait() == 2
