"""Wall-clock time, GPUs and disk: offered by the pilot, and given to its payloads."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pilots.agent.node import gpus
from pilots.agent.node.batch_system import Allocation
from pilots.agent.node.inspection import NodeReport
from pilots.agent.pilot.offer import Resources, resources_of
from pilots.agent.pilot.options import parse
from pilots.agent.server.configuration import Place
from tests.agent.conftest import StartAgent
from tests.agent.scripted import ScriptedServer


def offer_to(server: ScriptedServer) -> dict[str, Any]:
    offer: dict[str, Any] = server.requests_to("/matches/")[0].body
    return offer


def slot(**told: Any) -> Resources:
    nothing: dict[str, Any] = {"processors": 1, "memory_mb": 0, "gpus": 0, "disk_mb": 0, "container": False}
    nothing |= {"platforms": (), "tags": (), "required_tags": ()}
    return Resources(**{"cpu_time_s": 300_000, "wall_time_s": None, **nothing, **told})


# ---- GPUs


@pytest.mark.parametrize(
    ("environment", "found"),
    [
        ({}, ("0", "2", "10")),
        ({"CUDA_VISIBLE_DEVICES": "2,0"}, ("2", "0")),
        ({"CUDA_VISIBLE_DEVICES": " GPU-8f2 , MIG-1"}, ("GPU-8f2", "MIG-1")),
        ({"CUDA_VISIBLE_DEVICES": "1,1"}, ("1",)),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,1"}, ("0",)),
        ({"CUDA_VISIBLE_DEVICES": ""}, ()),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, ()),
        ({"SLURM_JOB_GPUS": "3"}, ("3",)),
        ({"CUDA_VISIBLE_DEVICES": "0", "SLURM_JOB_GPUS": "3"}, ("0",)),
    ],
)
def test_the_gpus_of_a_slot_are_those_of_its_grant_else_those_of_the_node(
    tmp_path: Path, environment: dict[str, str], found: tuple[str, ...]
) -> None:
    for name in ("nvidia10", "nvidia0", "nvidia2", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert gpus.of_slot(environment, devices=tmp_path, sysfs=tmp_path / "none").names == found


def test_a_node_without_devices_has_no_gpus(tmp_path: Path) -> None:
    assert gpus.of_slot({}, devices=tmp_path / "none", sysfs=tmp_path / "none").names == ()


CUDA, ROCM, LEVEL_ZERO = "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"
ALL_OF_SLURM = dict.fromkeys((CUDA, ROCM, LEVEL_ZERO), "1,2")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def node_of_nvidia(root: Path) -> None:
    write(root / "dev" / "nvidia0", "")


def node_of_amd(root: Path) -> None:
    """Make the files of a node with two GPUs, a GPU that this process may not use, and the processors."""
    write(root / "dev" / "kfd", "")
    for number, text in enumerate(
        ("cpu_cores_count 64\nsimd_count 0\n", "simd_count 304\nmem_banks_count 1\n", "simd_count 304\n", "")
    ):
        write(root / "sys/class/kfd/kfd/topology/nodes" / str(number) / "properties", text)


def node_of_intel(root: Path) -> None:
    """Make the files of a node with two GPUs that compute, the graphics of its processor, and those of its board."""
    adapters = [("0x8086", "0x038000"), ("0x8086", "0x030200"), ("0x8086", "0x030000"), ("0x1a03", "0x038000")]
    for number, (vendor, class_) in enumerate(adapters, start=128):
        write(root / f"dev/dri/renderD{number}", "")
        for name, text in (("vendor", vendor), ("class", class_)):
            write(root / f"sys/class/drm/renderD{number}/device" / name, f"{text}\n")


@pytest.mark.parametrize(
    ("make", "environment", "variable", "names"),
    [
        (node_of_amd, {}, ROCM, ("0", "1")),
        (node_of_intel, {}, LEVEL_ZERO, ("0", "1")),
        (None, {ROCM: "2,0"}, ROCM, ("2", "0")),
        (None, {LEVEL_ZERO: "0.0,0.1,1.0"}, LEVEL_ZERO, ("0.0,0.1", "1.0")),
        (None, {LEVEL_ZERO: "3,1"}, LEVEL_ZERO, ("3", "1")),
        (None, {ROCM: "GPU-4b2c"}, ROCM, ("GPU-4b2c",)),
        (node_of_amd, {ROCM: ""}, ROCM, ()),
        (node_of_amd, {CUDA: "", ROCM: "1"}, ROCM, ("1",)),
        (node_of_amd, ALL_OF_SLURM, ROCM, ("1", "2")),
        (node_of_intel, ALL_OF_SLURM, LEVEL_ZERO, ("1", "2")),
        (node_of_nvidia, ALL_OF_SLURM, CUDA, ("1", "2")),
        (None, ALL_OF_SLURM, CUDA, ("1", "2")),
        (node_of_amd, {"SLURM_JOB_GPUS": "1"}, ROCM, ("1",)),
        (node_of_amd, {"SLURM_JOB_GPUS": ""}, ROCM, ()),
        (None, {"_CONDOR_AssignedGPUs": "CUDA1, CUDA0"}, CUDA, ("1", "0")),
        (None, {"_CONDOR_AssignedGPUs": "GPU-8f2"}, CUDA, ("GPU-8f2",)),
        (node_of_nvidia, {"_CONDOR_AssignedGPUs": "CUDA3", CUDA: "GPU-8f2"}, CUDA, ("GPU-8f2",)),
    ],
)
def test_gpus_of_each_kind_are_found(
    tmp_path: Path,
    make: Callable[[Path], None] | None,
    environment: dict[str, str],
    variable: str,
    names: tuple[str, ...],
) -> None:
    if make is not None:
        make(tmp_path)
    found = gpus.of_slot(environment, devices=tmp_path / "dev", sysfs=tmp_path / "sys")
    assert (found.variable, found.names) == (variable, names)


@pytest.mark.parametrize("variable", [CUDA, ROCM, LEVEL_ZERO])
@pytest.mark.parametrize("names", [("2", "0"), ()])
def test_the_gpus_that_remain_visible_are_those_of_the_slot(variable: str, names: tuple[str, ...]) -> None:
    environment = {variable: "0,1,2", "HOME": "/"}
    gpus.show_only(names, environment)
    assert environment == {variable: ",".join(names), "HOME": "/"}
    assert gpus.of_slot(environment).names == names


@pytest.mark.parametrize(
    ("promised", "options", "offered"), [(1, (), 1), (4, (), 2), (0, (), 0), (None, (), 2), (1, ("--gpus", "3"), 3)]
)
def test_gpus_are_offered_as_the_queue_has_them_and_never_more_than_the_slot_has(
    server: ScriptedServer, start: StartAgent, promised: int | None, options: tuple[str, ...], offered: int
) -> None:
    server.configuration["place"]["gpus"] = promised
    start(*options, environment={"CUDA_VISIBLE_DEVICES": "5,3"}).wait()
    assert offer_to(server)["gpus"] == offered


@pytest.mark.parametrize("variable", [CUDA, ROCM, LEVEL_ZERO])
def test_a_payload_sees_as_many_gpus_as_its_job_requires(
    server: ScriptedServer, start: StartAgent, variable: str
) -> None:
    server.configuration["place"]["gpus"] = 2
    show = f"-c 'echo \"${{{variable}-unset}} ${{WMS_GPUS-unset}}\"'"
    server.add_job("/bin/sh", show, gpus=1)
    server.add_job("/bin/sh", show)
    start(environment={variable: "5,3"}).wait()
    assert offer_to(server)["gpus"] == 2
    assert [lease.files()["std.out"] for lease in server.leases] == ["5 1\n", "unset unset\n"]


# ---- disk


def test_disk_is_offered_as_the_queue_has_it_and_never_more_than_is_free(
    server: ScriptedServer, start: StartAgent
) -> None:
    server.configuration["place"]["disk_mb"] = 10
    start().wait()
    assert offer_to(server)["disk_mb"] == 10


@pytest.mark.parametrize("promised", [10**9, None])
def test_without_a_configured_value_the_node_disk_is_offered(
    server: ScriptedServer, start: StartAgent, promised: int | None
) -> None:
    server.configuration["place"]["disk_mb"] = promised
    start().wait()
    assert 0 < offer_to(server)["disk_mb"] <= server.node_reports[0]["node"]["disk_free_mb"] < 10**9


def test_command_line_options_take_precedence(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"].update(disk_mb=10, wall_time_s=4000)
    start("--disk-mb", "20", "--wall-time-s", "5000").wait()
    assert (offer_to(server)["disk_mb"], offer_to(server)["wall_time_s"]) == (20, 5000)


@pytest.mark.parametrize(("cores", "memory_mb", "offered"), [(3, 1000, (3, 1000)), (64, 64_000, (4, 8000))])
def test_offers_do_not_exceed_the_stated_node_resources(
    server: ScriptedServer, start: StartAgent, cores: int, memory_mb: int, offered: tuple[int, int]
) -> None:
    server.configuration["place"] |= {"processors": 4, "memory_mb": 8000}
    start("--node-processors", str(cores), "--node-memory-mb", str(memory_mb), measured=True).wait()
    assert (offer_to(server)["processors"], offer_to(server)["memory_mb"]) == offered
    told = server.node_reports[0]["node"]
    assert (told["processors"], told["memory_mb"]) == (cores, memory_mb)


def test_negative_resources_are_a_usage_error(start: StartAgent) -> None:
    assert start("--gpus", "-1").wait() == 2


def test_the_offered_disk_is_capped_at_the_largest_value() -> None:
    node = NodeReport(
        host_name="",
        batch_id="",
        platform="x86_64-el9",
        processors=1,
        memory_mb=None,
        disk_mb=1e13,
        gpus=(),
        container_runtime=None,
        speed=1.0,
        checks=(),
        facts={},
    )
    options = parse(["--server", "http://localhost", "--token-file", "-"])
    assert resources_of(options, Place(), node).disk_mb == 2**31 - 1


# ---- wall-clock time


def test_the_wall_clock_time_left_is_offered_where_it_is_known(server: ScriptedServer, start: StartAgent) -> None:
    server.configuration["place"]["wall_time_s"] = 86_400
    start().wait()
    assert offer_to(server)["wall_time_s"] == 86_400


def test_a_slot_of_unknown_length_offers_no_wall_time(server: ScriptedServer, start: StartAgent) -> None:
    start().wait()
    assert "wall_time_s" not in offer_to(server)


def test_at_the_start_the_whole_slot_is_offered_and_later_the_rest() -> None:
    day = slot(wall_time_s=86_400)
    assert [day.wall_left_s(elapsed_s) for elapsed_s in (5, 864, 865, 86_400, 90_000)] == [86_400, 86_400, 85_535, 0, 0]
    assert slot(wall_time_s=600).wall_left_s(9.5) == 600
    assert slot().wall_left_s(10**6) is None


def test_no_more_cpu_time_is_offered_than_the_slot_lasts_for() -> None:
    # A machine of thrice the reference's speed: 300,000 s of CPU time in 100,000 s.
    fast = slot(wall_time_s=100_000, speed=3.0)
    assert [fast.cpu_left_s(elapsed_s) for elapsed_s in (900, 50_000, 100_000)] == [300_000, 150_000, 0]
    # What lasts longer than its CPU time ends with that.
    assert slot(wall_time_s=450_000).cpu_left_s(50_000) == 250_000
    # A slow machine does less in what is left.
    assert slot(wall_time_s=450_000, speed=0.5).cpu_left_s(50_000) == 200_000
    # Where nobody says how long the slot lasts, its CPU time passes as the reference's, or faster.
    assert [slot(speed=speed).cpu_left_s(50_000) for speed in (0.5, 1.0, 2.0)] == [250_000, 250_000, 200_000]


def offered(
    *, told: dict[str, Any] | None = None, speed: float = 1.0, ends_s: float | None = None, **found: Any
) -> Resources:
    """Return the offer for a queue of the server's configuration, on a node and in a slot that ends after *ends_s*."""
    node = NodeReport(
        host_name="", batch_id="", platform="x86_64-el9", processors=found.pop("cores", 8), gpus=(), checks=(),
        memory_mb=found.pop("node_mb", 16_000.0), disk_mb=1e4, container_runtime=None, speed=speed, facts={},
    )  # fmt: skip
    options = parse(["--server", "http://localhost", "--token-file", "-"])
    return resources_of(options, Place(**(told or {})), node, allocation=Allocation(ends_s, **found), started_at=0.0)


def test_the_cpu_time_of_the_queue_is_offered_if_the_node_can_give_it() -> None:
    day = {"cpu_time_s": 86_400, "wall_time_s": 86_400}
    assert [offered(told=day, speed=speed).cpu_time_s for speed in (0.5, 0.8, 0.9, 1.0, 2.0)] == [
        43_200,
        69_120,
        86_400,  # within the error of the benchmark
        86_400,
        86_400,
    ]
    assert offered(told={"cpu_time_s": 86_400}, speed=0.2).cpu_time_s == 86_400


def test_with_a_batch_limit_only_a_faster_node_offers_more_cpu_time() -> None:
    assert [offered(ends_s=10_120, speed=speed).cpu_time_s for speed in (0.5, 1.0, 2.0)] == [5_000, 10_000, 20_000]


def test_a_slot_that_is_as_long_as_the_queue_is_offered_whole_but_its_end_is_kept_free() -> None:
    found = offered(told={"wall_time_s": 3600, "cpu_time_s": 3600}, ends_s=3600)
    assert (found.wall_time_s, found.cpu_time_s) == (3600, 3600)
    assert found.payload_wall_s(100, asked_s=3600) == 3380
    assert found.wall_left_s(100) == 3380
    assert found.cpu_left_s(100) == 3380


def test_a_slot_that_is_shorter_than_the_queue_is_offered_as_it_is() -> None:
    found = offered(told={"wall_time_s": 86_400, "cpu_time_s": 86_400}, ends_s=3600)
    assert (found.wall_time_s, found.cpu_time_s) == (3480, 3480)
    # Of a short one the margin is a tenth.
    assert offered(ends_s=100).wall_time_s == 90


def test_an_unlimited_slot_offers_the_configured_time() -> None:
    assert offered(told={"wall_time_s": 100}, ends_s=math.inf).wall_time_s == 100
    assert offered(ends_s=math.inf).wall_time_s is None


def test_cores_and_memory_are_the_minimum_of_all_sources() -> None:
    told = {"processors": 4, "memory_mb": 4000}
    assert (offered(told=told).processors, offered(told=told).memory_mb) == (4, 4000)
    assert offered(told=told, cores=2).processors == 2
    assert offered(told=told, processors=3).processors == 3
    assert offered(told=told, memory_mb=3000).memory_mb == 3000
    assert offered(told=told, node_mb=2000.5).memory_mb == 2000
    assert offered(told={**told, "memory_mb": 0}, memory_mb=3000).memory_mb == 0


def test_memory_reserved_by_the_kernel_is_tolerated() -> None:
    assert offered(told={"memory_mb": 16_384}, node_mb=15_900.0).memory_mb == 16_384


def test_without_a_stated_memory_a_pilot_offers_its_share_of_the_node() -> None:
    assert offered(node_mb=16_000.0, cores=8).memory_mb == 2000
    assert offered(node_mb=16_000.0, cores=8, memory_mb=1500).memory_mb == 1500
    assert offered(node_mb=None).memory_mb == 0


@pytest.mark.parametrize(("speed", "limit_s"), [(0.5, 2000), (1.0, 1000), (2.0, 1000)])
def test_a_job_on_a_slow_core_may_use_more_seconds_of_it(speed: float, limit_s: float) -> None:
    assert slot(speed=speed).cpu_limit_s(1000) == limit_s


def test_a_payload_may_run_until_its_slot_or_wall_time_ends() -> None:
    assert slot(wall_time_s=1000).payload_wall_s(100, asked_s=5000) == 900
    assert slot(cpu_time_s=1000).payload_wall_s(100, asked_s=0) == 1400
    assert slot(cpu_time_s=1000).payload_wall_s(100, asked_s=5000) == 5000


def test_a_payload_over_the_wall_clock_time_of_its_job_is_stopped(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "987653", wall_time_s=1)
    assert start().wait() == 0
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] is None
    assert server.lease.finished["minor_status"].startswith("Wall-clock limit exceeded: ")
    assert server.lease.finished["minor_status"].endswith(" s of 1 s")


def test_a_payload_within_its_wall_clock_time_is_left_alone(server: ScriptedServer, start: StartAgent) -> None:
    server.add_job("sleep", "0.5", wall_time_s=600)
    assert start().wait() == 0
    assert server.lease.finished is not None
    assert server.lease.finished["exit_code"] == 0


@pytest.mark.parametrize(
    ("option", "value"), [("--processors", "two"), ("--gpus", "x"), ("--grace-s", "soon"), ("--speed", "fast")]
)
def test_a_wrong_value_is_reported_without_internal_terms(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(["--server", "http://localhost", "--token-file", "-", option, value])
    said = capsys.readouterr().err
    assert f"'{value}' is not a " in said
    assert "invalid" not in said
