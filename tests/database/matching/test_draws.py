"""The draws are exact: the index and the lottery of the match, compared with values written out (ADR 2, PIL §2.2).

The draws are seeded; with random seeds each test would fail once in a thousand runs (alpha = 0.001).
"""

from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from uuid import uuid4

import pytest
from django.db import transaction

from matching.domain.draw import Lottery
from matching.services.match import match
from matching.services.offers import OfferRequest
from taskqueues.domain.offer import ResourceOffer
from taskqueues.services import priorities
from taskqueues.services.index.shared import index
from tests.factories import make_group, make_job, make_pilot, make_queued_job, make_task_queue, make_user
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db

#: Quantiles of chi-square at 0.999, by degrees of freedom.
CRITICAL = {1: 10.828, 2: 13.816, 3: 16.266, 8: 26.125, 9: 27.877, 19: 43.820}
DRAWS = 100_000


@pytest.fixture
def group() -> Group:
    return make_group(priority=100.0, shares_jobs=True)


def drawing(group: Group) -> Callable[[], tuple[int, int]]:
    """Return a function that draws a task queue and a user priority for a pilot of the group's VO."""
    offer = ResourceOffer(
        vo_id=group.vo_id,
        setup=group.vo.setup,
        cpu_time_s=300_000,
        site=None,
        ce=None,
        platforms=None,
        submit_pools=None,
    )
    snapshot, chance = index.renewed(), Random(1)
    segments = snapshot.masks.fitting(offer, among=snapshot.masks.segments.values())
    lottery = Lottery(segments, priority=snapshot.drawn_priority, jobs=snapshot.jobs)

    def draw() -> tuple[int, int]:
        drawn = lottery.draw(queue_chance=chance.random(), level_chance=chance.random())
        assert drawn is not None
        return int(snapshot.columns.task_queue_id[drawn.row]), drawn.user_priority

    return draw


def assert_as_expected(drawn: Mapping[int, int], parts: Mapping[int, float]) -> None:
    """Assert by Pearson's chi-square that the numbers drawn agree with the expected parts of the whole."""
    assert drawn.keys() <= parts.keys()
    draws, whole = sum(drawn.values()), sum(parts.values())
    distance = sum(
        (drawn.get(key, 0) - draws * part / whole) ** 2 / (draws * part / whole) for key, part in parts.items()
    )
    assert distance < CRITICAL[len(parts) - 1], (dict(drawn), dict(parts))


def test_twenty_queues_are_drawn_in_proportion_to_their_priorities(group: Group) -> None:
    """Weights 1 to 100, and a queue of a lower segment that nobody draws. TQM's RAND()/priority fails this."""
    owner = make_user(groups=[group])
    weights = [1, 2, 3, 5, 7, 10, 12, 15, 18, 20, 25, 30, 35, 40, 50, 60, 70, 80, 90, 100]
    queues = [
        make_task_queue(group=group, owner=owner, cpu_time_s=5000, job_type=f"type{weight}", job_ids=[1000 * weight])
        for weight in weights
    ]
    for queue, weight in zip(queues, weights, strict=True):
        for number in range(1, weight):
            make_queued_job(task_queue=queue, job_id=1000 * weight + number, user_priority=1)
    make_queued_job(task_queue=make_task_queue(group=group, cpu_time_s=500), user_priority=9)
    priorities.recalculate()
    draw = drawing(group)
    assert_as_expected(
        Counter(draw()[0] for _ in range(DRAWS)), dict(zip([queue.pk for queue in queues], weights, strict=True))
    )


def test_groups_users_and_queues_get_their_shares(group: Group) -> None:
    """PRI: a sharing group of 100 beside one of 300 that is divided over two users, of whom one has two queues."""
    divided = make_group(vo=group.vo, priority=300.0)
    alice, bob = make_user(groups=[divided]), make_user(groups=[divided])
    queues = [
        make_task_queue(group=group, job_ids=[1]),
        make_task_queue(group=divided, owner=alice, job_type="one", job_ids=[2, 3]),
        make_task_queue(group=divided, owner=alice, job_type="other", job_ids=[4]),
        make_task_queue(group=divided, owner=bob, job_ids=[5, 6, 7, 8]),
    ]
    priorities.recalculate()
    draw = drawing(group)
    # 100 : (150 × 2/3) : (150 × 1/3) : 150.
    parts = dict(zip([queue.pk for queue in queues], [100, 100, 50, 150], strict=True))
    assert_as_expected(Counter(draw()[0] for _ in range(DRAWS)), parts)


def levels_drawn(group: Group, jobs_of_priority: Mapping[int, int]) -> Counter[int]:
    queue = make_task_queue(group=group)
    job_id = 0
    for user_priority, jobs in jobs_of_priority.items():
        for _ in range(jobs):
            job_id += 1
            make_queued_job(task_queue=queue, job_id=job_id, user_priority=user_priority)
    draw = drawing(group)
    return Counter(draw()[1] for _ in range(DRAWS))


def test_user_priorities_one_to_nine_are_linear(group: Group) -> None:
    drawn = levels_drawn(group, dict.fromkeys(range(1, 10), 1))
    assert_as_expected(drawn, {priority: priority for priority in range(1, 10)})


def test_a_level_is_drawn_by_jobs_times_weight(group: Group) -> None:
    """20 × 1 : 5 × 3 : 5 × 9."""
    assert_as_expected(levels_drawn(group, {1: 20, 3: 5, 9: 5}), {1: 20, 3: 15, 9: 45})


def test_priority_ten_outweighs_nine_by_the_stated_ratio(group: Group) -> None:
    """Binomial(100,000, 9/100,009), mean 9.0: outside 1 … 20 with less than 0.001 (0.0001 below, 0.0004 above)."""
    assert 1 <= levels_drawn(group, {9: 1, 10: 1})[9] <= 20


def test_priority_zero_is_not_drawn_beside_priority_one(group: Group) -> None:
    """Binomial(100,000, 1e-5/1.00001): 0 has 0.37, so the seed says which; more than 5 has 0.0006."""
    assert levels_drawn(group, {0: 1, 1: 1})[0] == 0


def test_priority_zero_is_drawn_when_alone(group: Group) -> None:
    assert levels_drawn(group, {0: 3}) == {0: DRAWS}


class AlwaysRandom(Random):
    """Draws one number only."""

    def __init__(self, number: float) -> None:
        super().__init__()
        self._number = number

    def random(self) -> float:
        return self._number


def test_jobs_are_drawn_among_the_ten_oldest_of_the_level(group: Group) -> None:
    owner = make_user(groups=[group])
    jobs = [make_job(group=group, owner=owner).pk for _ in range(20)]
    pilot, drawn = make_pilot(vo=group.vo), Counter[int]()
    # Each job has an equal part of the chances from 0 to 1, of which these are evenly spread.
    for chance in [0.0, *((number + 0.5) / 20 for number in range(20)), 1 - 2**-53]:
        with transaction.atomic():
            offer, always = OfferRequest(cpu_time_s=300_000), AlwaysRandom(chance)
            (lease,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=always)
            transaction.set_rollback(True)
        drawn[lease.job_id] += 1
    assert drawn.keys() == set(jobs[:10])
    assert sorted(drawn.values()) == [2] * 8 + [3] * 2  # the ends belong to two of them
