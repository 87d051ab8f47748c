"""The draws are exact: by the statements that the match runs, against expected values written out (ADR 2, PIL §2.2).

Seeded, so that they do the same each time; were they not, each would fail once in 100,000 runs (alpha = 1e-5).
"""

from collections import Counter
from collections.abc import Mapping
from random import Random

import pytest
from django.db import connection, transaction

from matching.services.claim import claim
from taskqueues.domain.offer import ResourceOffer
from taskqueues.models import QueuedJob, TaskQueue
from taskqueues.services import priorities
from tests.factories import make_group, make_queued_job, make_task_queue, make_user
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db

#: Quantiles of chi-square at 1 - 1e-5, by degrees of freedom.
CRITICAL = {1: 19.51, 2: 23.03, 3: 25.90, 9: 39.34}


@pytest.fixture
def group() -> Group:
    with connection.cursor() as cursor:
        cursor.execute("SELECT setseed(0.25)")
    return make_group(priority=100.0, shares_jobs=True)


def offer_to(group: Group) -> ResourceOffer:
    return ResourceOffer(
        vo_id=group.vo_id,
        setup=group.vo.setup,
        cpu_time_s=300_000,
        site=None,
        ce=None,
        platforms=None,
        submit_pools=None,
    )


def assert_as_expected(drawn: Mapping[int, int], expected: Mapping[int, float]) -> None:
    assert drawn.keys() <= expected.keys()
    distance = sum((drawn.get(key, 0) - value) ** 2 / value for key, value in expected.items())
    assert distance < CRITICAL[len(expected) - 1], (dict(drawn), dict(expected))


def test_queues_are_drawn_in_proportion_to_their_priorities(group: Group) -> None:
    """3 : 1 of 1200 draws. TQM's RAND()/priority delivers 5 : 1, which is 1000 and 200."""
    queues = [
        make_task_queue(group=group, cpu_time_s=5000, job_type=f"type{weight}", job_ids=[weight], user_priority=weight)
        for weight in (3, 1)
    ]
    make_queued_job(task_queue=make_task_queue(group=group, cpu_time_s=500), user_priority=9)  # a lower segment
    priorities.recalculate()
    fitting = TaskQueue.objects.with_jobs().fitting(offer_to(group)).in_lottery_order().values_list("pk", flat=True)
    drawn = Counter(fitting[:1].get() for _ in range(1200))
    assert_as_expected(drawn, dict(zip([queue.pk for queue in queues], [900, 300], strict=True)))


def test_groups_users_and_queues_get_their_parts(group: Group) -> None:
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
    fitting = TaskQueue.objects.with_jobs().fitting(offer_to(group)).in_lottery_order().values_list("pk", flat=True)
    drawn = Counter(fitting[:1].get() for _ in range(800))
    # 100 : (150 × 2/3) : (150 × 1/3) : 150 of 400.
    assert_as_expected(drawn, dict(zip([queue.pk for queue in queues], [200, 200, 100, 300], strict=True)))


def test_levels_are_drawn_by_jobs_times_weight_and_jobs_among_the_ten_oldest(group: Group) -> None:
    """By the claim itself: 20 × 1 : 5 × 3 : 5 × 9, and 1e-5 for priority 0, in 400 draws."""
    queue = make_task_queue(group=group)
    jobs = {0: [1], 1: range(100, 120), 3: range(300, 305), 9: range(900, 905)}
    for user_priority, job_ids in jobs.items():
        for job_id in job_ids:
            make_queued_job(task_queue=queue, job_id=job_id, user_priority=user_priority)
    chance = Random(7)
    levels, oldest = Counter[int](), Counter[int]()
    for _ in range(400):
        with transaction.atomic():
            job = claim(offer_to(group), chance=chance, may_wait=True)
            transaction.set_rollback(True)
        assert job is not None
        levels[job.user_priority] += 1
        if job.user_priority == 1:
            oldest[job.job_id] += 1
    assert QueuedJob.objects.count() == 31
    # 20 : 15 : 45 of 80.
    assert_as_expected(levels, {1: 100, 3: 75, 9: 225})
    assert oldest.keys() == set(range(100, 110))
    assert_as_expected(oldest, dict.fromkeys(range(100, 110), levels[1] / 10))
