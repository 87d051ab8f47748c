"""The identity of task queues: jobs that share one, and jobs that do not (TQM, docs/architecture.md, Task queues)."""

from dataclasses import asdict, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskqueues.domain.definition import JobRequirements, NoSiteLeftError, QueueDefinition, Rounding, define

ROUNDING = Rounding(
    cpu_segments_s=(500, 5000, 50000, 300000), steps={"memory_mb": 500, "wall_time_s": 600, "disk_mb": 1000}
)
LISTS = ("submit_pools", "pilot_types", "sites", "banned_sites", "grid_ces", "grid_middlewares", "platforms", "tags")
names = st.lists(st.sampled_from(["A", "B", "C", "D", "E", "é", "a"]), max_size=6)


def make(**wishes: object) -> QueueDefinition:
    defaults = {"owner_id": 1, "group_id": 2, "vo_id": 3, "setup": "S", "cpu_time_s": 10, "job_type": "User"}
    return define(JobRequirements(**{**defaults, **wishes}), rounding=ROUNDING)  # type: ignore[arg-type]


@given(st.sampled_from([name for name in LISTS if name != "banned_sites"]), names, st.randoms())
def test_order_and_repetition_in_a_list_change_nothing(field: str, values: list[str], chance: Random) -> None:
    shuffled = [*values, *values]
    chance.shuffle(shuffled)
    assert make(**{field: values}).signature() == make(**{field: shuffled}).signature()


@given(st.sampled_from(LISTS), names, names)
def test_lists_with_other_values_make_another_queue(field: str, values: list[str], others: list[str]) -> None:
    same = make(**{field: values}).signature() == make(**{field: others}).signature()
    assert same == (set(values) == set(others))


@pytest.mark.parametrize(
    ("field", "one", "other"),
    [
        ("owner_id", 1, 9),
        ("group_id", 2, 9),
        ("vo_id", 3, 9),
        ("setup", "S", "T"),
        ("cpu_time_s", 500, 501),
        ("job_type", "User", "user"),
        ("processors", 1, 2),
        ("memory_mb", 500, 501),
        ("wall_time_s", 600, 601),
        ("wall_time_s", 0, 1),
        ("gpus", 0, 1),
        ("disk_mb", 1000, 1001),
        ("disk_mb", 0, 1),
        ("container", False, True),
    ],
)
def test_every_single_value_is_part_of_the_signature(field: str, one: object, other: object) -> None:
    assert make(**{field: one}).signature() != make(**{field: other}).signature()


def test_every_field_is_part_of_the_signature() -> None:
    definition = make()
    for field, value in asdict(definition).items():
        other = (*value, "x") if isinstance(value, tuple) else (f"{value}x" if isinstance(value, str) else value + 1)
        changed: dict[str, Any] = {field: other}
        assert replace(definition, **changed).signature() != definition.signature(), field


def test_signatures_without_new_requirements_are_unchanged() -> None:
    # Written down when wall-clock time, GPUs, disk and containers were not yet asked for.
    earlier = "1900c8529caa44556b3ddb45ade41554df8d0cbabb191d1fbe9ed0cf4abb82c4"
    definition = make(tags=["GPU", "a"], sites=["S"], banned_sites=["T"], memory_mb=10, processors=2)
    assert definition.signature().hex() == earlier
    assert make(tags=["GPU", "a"], sites=["S"], memory_mb=10, processors=2, gpus=1).signature().hex() != earlier


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_wall_clock_times_and_disks_of_one_step_share_a_queue(one: int, other: int) -> None:
    for field, step in (("wall_time_s", 600), ("disk_mb", 1000)):
        same_step = -(-one // step) == -(-other // step)
        assert (make(**{field: one}).signature() == make(**{field: other}).signature()) == same_step


def test_values_cannot_slip_from_one_field_into_the_next() -> None:
    assert make(sites=["A"], grid_ces=[]).signature() != make(sites=[], grid_ces=["A"]).signature()
    assert make(tags=["a,b"]).signature() != make(tags=["a", "b"]).signature()


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_cpu_times_of_one_segment_share_a_queue(one: int, other: int) -> None:
    same_segment = (one <= 500) == (other <= 500)
    assert (make(cpu_time_s=one).signature() == make(cpu_time_s=other).signature()) == same_segment


@given(names, names)
def test_banned_sites_are_taken_out_of_the_sites_and_not_kept_beside_them(sites: list[str], banned: list[str]) -> None:
    if sites and not set(sites) - set(banned):
        with pytest.raises(NoSiteLeftError):
            make(sites=sites, banned_sites=banned)
        return
    definition = make(sites=sites, banned_sites=banned)
    assert definition.sites == tuple(sorted(set(sites) - set(banned)))
    assert definition.banned_sites == (() if sites else tuple(sorted(set(banned))))
