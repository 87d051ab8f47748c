"""A group's priority divided over its queues (PRI, PIL)."""

from collections import defaultdict
from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from taskqueues.domain.shares import WEIGHT_OF_PRIORITY, QueueLoad, split_share, total_weight

weights = st.floats(min_value=1e-5, max_value=1e12)


@st.composite
def loads(draw: st.DrawFn) -> list[QueueLoad]:
    owners = draw(st.lists(st.integers(1, 5), min_size=1, max_size=30))
    return [QueueLoad(task_queue_id=n, owner_id=owner, weight=draw(weights)) for n, owner in enumerate(owners)]


def load(task_queue_id: int, owner_id: int, weight: float) -> QueueLoad:
    return QueueLoad(task_queue_id=task_queue_id, owner_id=owner_id, weight=weight)


@given(loads(), st.floats(min_value=0, max_value=1e9), st.booleans())
def test_the_priorities_of_a_groups_queues_add_up_to_its_share(
    queues: list[QueueLoad], share: float, shared: bool
) -> None:
    assert isclose(sum(split_share(share, queues, shared=shared).values()), share, rel_tol=1e-9, abs_tol=1e-12)


@given(loads(), st.floats(min_value=1e-3, max_value=1e9))
def test_without_job_sharing_every_owner_gets_the_same(queues: list[QueueLoad], share: float) -> None:
    priority = split_share(share, queues, shared=False)
    of_owner: defaultdict[int, float] = defaultdict(float)
    for queue in queues:
        of_owner[queue.owner_id] += priority[queue.task_queue_id]
    assert all(isclose(part, share / len(of_owner), rel_tol=1e-9) for part in of_owner.values())


@given(loads(), st.floats(min_value=1e-3, max_value=1e9))
def test_with_job_sharing_a_queues_part_is_proportional_to_its_weight(queues: list[QueueLoad], share: float) -> None:
    priority = split_share(share, queues, shared=True)
    total = sum(queue.weight for queue in queues)
    assert all(isclose(priority[q.task_queue_id], share * q.weight / total, rel_tol=1e-9) for q in queues)


def test_the_example_of_two_users_with_unequal_queues() -> None:
    # Alice has queues of weight 1 and 3, Bob one of 100: each user gets half of 12, Alice's is split 1 : 3.
    queues = [load(1, 7, 1.0), load(2, 7, 3.0), load(3, 8, 100.0)]
    assert split_share(12.0, queues, shared=False) == {1: 1.5, 2: 4.5, 3: 6.0}


def test_a_new_queue_does_not_lower_the_groups_sum() -> None:
    before = split_share(10.0, [load(1, 7, 5.0)], shared=True)
    after = split_share(10.0, [load(1, 7, 5.0), load(2, 7, 5.0)], shared=True)
    assert sum(before.values()) == sum(after.values()) == 10.0


def test_a_group_of_priority_zero_gives_its_queues_nothing() -> None:
    assert split_share(0.0, [load(1, 7, 5.0), load(2, 8, 1.0)], shared=False) == {1: 0.0, 2: 0.0}


def test_a_group_without_queues_divides_nothing() -> None:
    assert split_share(5.0, [], shared=False) == {}


def test_user_priorities_are_linear_but_for_zero_and_ten() -> None:
    assert WEIGHT_OF_PRIORITY == {0: 1e-5, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9, 10: 1e5}


def test_a_queue_weighs_the_sum_of_its_jobs_weights() -> None:
    assert total_weight({1: 10, 5: 2, 10: 1}) == 10 + 10 + 1e5
