"""Slurm's descriptions of nodes, recorded from clusters that tests cannot run."""

from typing import Any

import pytest

from pilots.backends.interface import BatchQueue, BatchRequest
from pilots.backends.slurm_nodes import free_slots, nodes_in, shortfalls
from pilots.backends.slurm_options import parse_options

_SAID = {
    "name": "n1", "partition": "main", "available": "up", "state": "idle", "cpus": "0/16/0/16", "memory": "64000",
    "allocated": "0", "disk": "1000", "features": "el9,avx", "gres": "(null)", "used": "gpu:0", "shared": "NO",
    "longest": "infinite", "usual": "n/a",
}  # fmt: skip


def line(**said: str) -> str:
    return "".join(f"{value}|" for value in (_SAID | said).values())


def free(*lines: str, options: dict[str, object] | None = None, **slot: Any) -> int:
    queue = BatchQueue(slot=BatchRequest(queue="main", **slot), cpu_time_s=1)
    return free_slots(nodes_in("\n".join(lines)), [queue], options=parse_options(options or {}))


def doubted(cpu_time_s: int, **said: str) -> list[str]:
    queue = BatchQueue(slot=BatchRequest(queue="main"), cpu_time_s=cpu_time_s)
    return list(shortfalls(list(nodes_in(line(**said))), [queue], options=parse_options({})))


def test_no_pilot_of_eight_cores_fits_nodes_with_two_free_cores_each() -> None:
    nodes = [line(name=f"n{number}", cpus="14/2/0/16", state="mix") for number in range(50)]
    assert free(*nodes, processors=8, memory_mb=16_000) == 0
    assert free(*nodes, processors=2) == 50


@pytest.mark.parametrize("state", ["idle", "mix", "idle~", "mix#", "comp", "mix-"])
def test_nodes_that_take_jobs_are_counted(state: str) -> None:
    assert free(line(state=state)) == 16


@pytest.mark.parametrize(
    "state", ["idle*", "down", "drain", "drng", "resv", "maint", "mix@", "idle$", "unk", "", "fail"]
)
def test_nodes_that_take_no_jobs_are_not(state: str) -> None:
    assert free(line(state=state)) == 0


@pytest.mark.parametrize(
    ("said", "slot", "expected"),
    [
        ({"gres": "gpu:a100:4(S:0-1),gpu:v:2,nvme:1", "used": "gpu:a100:3(IDX:0-2),gpu:v:0(IDX:N/A)"}, {"gpus": 1}, 3),
        ({"gres": "gpu:2", "used": "gpu:2(IDX:0-1)"}, {"gpus": 1}, 0),
        ({"allocated": "70000"}, {"memory_mb": 1}, 0),  # more than there is, as where memory is shared
        ({"allocated": "70000"}, {}, 16),
        ({"memory": "N/A"}, {"memory_mb": 1}, 0),
        ({"shared": "EXCLUSIVE"}, {}, 1),
        ({"shared": "EXCLUSIVE", "cpus": "1/15/0/16", "state": "mix"}, {}, 0),
    ],
)  # fmt: skip
def test_free_resources_of_a_node_are_computed(said: dict[str, str], slot: dict[str, Any], expected: int) -> None:
    assert free(line(**said), **slot) == expected


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [("avx", 16), ("avx&el9", 16), ("avx&el8", 0), ("(el8|el9)&avx", 16), ("[rack1|rack2]", 16), ("rack*2", 16)],
)
def test_features_are_compared_as_far_as_they_are_words(constraint: str, expected: int) -> None:
    assert free(line(), options={"constraint": constraint}) == expected


@pytest.mark.parametrize("cpus", ["N/A", "", "4/0", "(null)", "a/b/c/d", "-1/5/0/4", f"0/{'9' * 5000}/0/16", "²/3/0/5"])
def test_a_node_without_numbers_of_cores_is_not_counted_and_named(cpus: str) -> None:
    lines = [line(name="n2", cpus=cpus), line(name="n1", cpus=cpus), line(), line(name="n9", cpus=cpus, state="down")]
    assert free(*lines) == 16
    (sentence,) = shortfalls(list(nodes_in("\n".join(lines))), [], options=parse_options({}))
    assert sentence == "Slurm gives no number of free cores for the nodes n1, n2: no slots are counted there."


def test_of_many_nodes_without_numbers_some_are_named() -> None:
    lines = [line(name=f"n{number}", cpus="N/A") for number in range(1, 9)]
    (sentence,) = shortfalls(list(nodes_in("\n".join(lines))), [], options=parse_options({}))
    assert "the nodes n1, n2, n3, n4, n5 and 3 more: " in sentence


@pytest.mark.parametrize("name", ["memory", "allocated", "disk", "gres", "used", "longest", "usual"])
@pytest.mark.parametrize("value", ["N/A", "9" * 5000, f"gpu:{'9' * 5000}", f"{'9' * 5000}:00", "²"])
def test_other_fields_that_cannot_be_read_cost_at_most_their_node(name: str, value: str) -> None:
    assert free(line(name="n2", **{name: value}), line(), memory_mb=1) >= 16


def test_malformed_lines_are_ignored() -> None:
    assert free("", "a warning | of somebody", line(), line()[:-3]) == 16


@pytest.mark.parametrize(
    ("longest", "limit_s"), [("1-00:00:00", 86400), ("2:00", 120), ("1:00:00", 3600), ("3-12:30:05", 304205)]
)
def test_times_are_read_as_slurm_writes_them(longest: str, limit_s: int) -> None:
    assert doubted(limit_s, longest=longest) == []
    assert f"may run {limit_s} s" in doubted(2 * limit_s, longest=longest)[0]


def test_a_partition_without_a_limit_gives_the_configured_time() -> None:
    assert doubted(10**7) == []
