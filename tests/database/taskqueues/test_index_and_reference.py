"""The index accepts exactly the task queues that the reference in SQL accepts, for random queues and random offers."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskqueues.domain.conditions import CONDITIONS
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import TaskQueue
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from tests.cases import examples
from tests.factories import make_group, make_task_queue, make_user, make_vo
from tests.reference.conditions import all_conditions

pytestmark = pytest.mark.django_db

NAMES = ("A", "B", "C", "D")
SETUPS = ("Production", "Test")
SEGMENTS_S = (500, 5000, 50_000)
CORES = (1, 2, 8)
MEMORIES_MB = (0, 1000, 2000)
WALL_TIMES_S = (0, 600, 3600)
GPUS = (0, 0, 1, 4)
DISKS_MB = (0, 1000, 5000)


@pytest.fixture
def sample() -> dict[str, list[int]]:
    """Return two hundred queues of two VOs, four groups, six users, of whom one is suspended."""
    chance = Random(4)
    groups = [make_group(vo=vo, shares_jobs=shares) for vo in (make_vo(), make_vo()) for shares in (True, False)]
    users = [make_user(groups=groups, suspended=number == 5) for number in range(6)]

    def some() -> list[str]:
        return sorted(chance.sample(NAMES, chance.choice([0, 0, 1, 1, 2, 3])))

    for _ in range(200):
        sites = some()
        wanted: dict[str, Any] = {
            "sites": sites,
            "banned_sites": [] if sites else some(),
            "setup": chance.choice(SETUPS),
            "cpu_time_s": chance.choice(SEGMENTS_S),
            "pilot_types": chance.choice([[], ["generic"], ["private"], ["generic", "private"]]),
            "job_type": chance.choice(NAMES),
            "processors": chance.choice(CORES),
            "memory_mb": chance.choice(MEMORIES_MB),
            "wall_time_s": chance.choice(WALL_TIMES_S),
            "gpus": chance.choice(GPUS),
            "disk_mb": chance.choice(DISKS_MB),
            "container": chance.choice([False, False, True]),
            "grid_middlewares": some(),
        }
        lists: dict[str, Any] = {name: some() for name in ("grid_ces", "platforms", "submit_pools", "software", "tags")}
        group, owner = chance.choice(groups), chance.choice(users)
        if not TaskQueue.objects.filter(owner=owner, group=group, **wanted, **lists).exists():
            make_task_queue(group=group, owner=owner, **wanted, **lists)
    return {
        "vo_id": [group.vo_id for group in groups],
        "group_id": [group.pk for group in groups],
        "owner_id": [user.pk for user in users],
    }


def one_of(*values: object) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


names = st.lists(one_of(*NAMES, "E"), max_size=4, unique=True).map(tuple)


@given(data=st.data())
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def check(sample: dict[str, list[int]], snapshot: Snapshot, data: st.DataObject) -> None:
    offer = ResourceOffer(
        vo_id=data.draw(one_of(*sample["vo_id"])),
        group_id=data.draw(one_of(None, None, *sample["group_id"])),
        owner_id=data.draw(one_of(None, None, *sample["owner_id"])),
        setup=data.draw(one_of(*SETUPS, "Other", None)),
        cpu_time_s=data.draw(st.integers(0, 60_000)),
        site=data.draw(one_of(None, *NAMES, "E")),
        accepting=data.draw(st.booleans()),
        ce=data.draw(one_of(None, *NAMES, "E")),
        platforms=data.draw(st.none() | names),
        submit_pools=data.draw(st.none() | names),
        lacking_software=data.draw(names.map(frozenset)),
        tags=data.draw(names),
        required_tags=data.draw(one_of((), (), ("A",), ("A", "B"))),
        job_types=data.draw(one_of((), (), ("A",), ("A", "C", "E"))),
        processors=data.draw(st.integers(0, 9)),
        memory_mb=data.draw(st.integers(-1, 2500)),
        wall_time_s=data.draw(st.none() | st.integers(-1, 4000)),
        gpus=data.draw(st.integers(-1, 5)),
        disk_mb=data.draw(st.integers(-1, 6000)),
        container=data.draw(st.booleans()),
    )
    expected = list(TaskQueue.objects.filter(all_conditions(offer)).order_by("pk").values_list("pk", flat=True))
    columns, masks = snapshot.columns, snapshot.masks
    [fitting] = masks.fitting(offer, among=[slice(0, None)])
    assert sorted(columns.task_queue_id[fitting].tolist()) == expected
    by_segment = list(masks.fitting(offer, among=masks.segments.values()))
    assert sorted(columns.task_queue_id[np.concatenate(by_segment)].tolist()) == expected
    some = np.arange(len(columns)) % 3 > 0
    left, numbers = some, {}
    for name, condition in CONDITIONS.items():
        accepted = condition.accepts(columns, offer)
        left = left if accepted is None else left & accepted
        numbers[name] = int(np.count_nonzero(left))
    assert list(masks.numbers_left(offer, among=some).items()) == list(numbers.items())
    assert sorted(columns.task_queue_id[masks.accepting(offer)].tolist()) == expected


def test_index_and_reference_accept_the_same_queues(sample: dict[str, list[int]]) -> None:
    snapshot = index.renewed()
    assert len(snapshot.columns) > 150
    check(sample, snapshot)
