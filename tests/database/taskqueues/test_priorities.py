"""Priorities of task queues, recalculated (PRI, PIL §2.2)."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from taskqueues.models import ChangedGroup, TaskQueue
from taskqueues.services import priorities
from tests.factories import NOW, make_group, make_queued_job, make_task_queue, make_user, make_vo
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db


def priority_of(*queues: TaskQueue) -> list[float]:
    return [TaskQueue.objects.get(pk=queue.pk).priority for queue in queues]


def queue_with(group: Group, *, owner: object = None, jobs: dict[int, int], cpu_time_s: int = 500) -> TaskQueue:
    queue = make_task_queue(group=group, owner=owner, cpu_time_s=cpu_time_s, priority=0.0)  # type: ignore[arg-type]
    for user_priority, number in jobs.items():
        for _ in range(number):
            make_queued_job(task_queue=queue, user_priority=user_priority)
    return queue


def test_a_group_without_job_sharing_is_divided_by_users_then_by_weights() -> None:
    group = make_group(priority=12.0)
    alice, bob = make_user(groups=[group]), make_user(groups=[group])
    one = queue_with(group, owner=alice, jobs={1: 1})
    three = queue_with(group, owner=alice, jobs={3: 1}, cpu_time_s=5000)
    bobs = queue_with(group, owner=bob, jobs={9: 5})
    assert priorities.recalculate() == 3
    assert priority_of(one, three, bobs) == pytest.approx([1.5, 4.5, 6.0])


def test_a_group_with_job_sharing_is_divided_by_weights_alone() -> None:
    group = make_group(priority=12.0, shares_jobs=True)
    one, five = queue_with(group, jobs={1: 1}), queue_with(group, jobs={5: 1})
    priorities.recalculate()
    assert priority_of(one, five) == pytest.approx([2.0, 10.0])


def test_user_priority_ten_weighs_a_hundred_thousand() -> None:
    group = make_group(priority=1.0, shares_jobs=True)
    urgent, rest = queue_with(group, jobs={10: 1}), queue_with(group, jobs={1: 1})
    priorities.recalculate()
    assert priority_of(urgent, rest) == pytest.approx([1e5 / (1e5 + 1), 1 / (1e5 + 1)])


def test_repeating_it_writes_nothing() -> None:
    group = make_group(priority=7.0)
    queue_with(group, jobs={1: 3})
    queue_with(group, jobs={2: 1}, cpu_time_s=5000)
    assert priorities.recalculate() == 2
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert priorities.recalculate() == 0
    assert not [q for q in queries.captured_queries if q["sql"].lstrip().startswith("UPDATE")]


def test_only_changed_groups_are_recalculated_when_asked_so_and_their_marks_go() -> None:
    vo = make_vo()
    changed, other = make_group(vo=vo, priority=5.0), make_group(vo=vo, priority=5.0)
    one, two = queue_with(changed, jobs={1: 1}), queue_with(other, jobs={1: 1})
    ChangedGroup.objects.create(group=changed, changed_at=NOW)
    assert priorities.recalculate(only_changed=True) == 1
    assert priority_of(one, two) == [5.0, 0.0]
    assert not ChangedGroup.objects.exists()


def test_nothing_marked_means_nothing_to_do() -> None:
    queue_with(make_group(priority=5.0), jobs={1: 1})
    assert priorities.recalculate(only_changed=True) == 0


def test_a_group_of_priority_zero_has_queues_of_priority_zero() -> None:
    queue = queue_with(make_group(priority=0.0), jobs={10: 4})
    priorities.recalculate()
    assert priority_of(queue) == [0.0]


def test_a_group_with_an_empty_queue_is_looked_at_again_until_that_is_gone_or_refilled() -> None:
    """A job that comes into an emptied queue makes no new one, so nobody else would notice."""
    group = make_group(priority=12.0, shares_jobs=True)
    full, emptied = queue_with(group, jobs={1: 1}), queue_with(group, jobs={}, cpu_time_s=5000)
    TaskQueue.objects.update(priority=6.0)
    priorities.recalculate()
    assert priority_of(full) == [12.0]
    make_queued_job(task_queue=emptied, user_priority=3)
    priorities.recalculate(only_changed=True)
    assert priority_of(full, emptied) == pytest.approx([3.0, 9.0])
    assert not ChangedGroup.objects.exists()
