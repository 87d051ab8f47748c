"""Priorities of task queues, recalculated (PRI, PIL §2.2)."""

from math import isclose

import pytest
from django.db import connection
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskqueues.domain.shares import QueueLoad, split_share, total_weight
from taskqueues.models import ChangedGroup, QueuedJob, TaskQueue, TaskQueueChange
from taskqueues.models.changes import CONFIGURATION
from taskqueues.services import priorities
from tests.cases import examples
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
    queue_with(group, jobs={2: 1, 10: 1, 0: 2}, cpu_time_s=5000)
    assert priorities.recalculate() == 2
    written = row_versions()
    TaskQueueChange.objects.all().delete()
    assert priorities.recalculate() == 0
    assert row_versions() == written
    assert not TaskQueueChange.objects.exists()


def row_versions() -> set[tuple[int, str]]:
    """Return (id, physical row location) of each task queue; an update changes the location."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, ctid::text FROM taskqueues_taskqueue")
        return set(cursor.fetchall())


def test_waiting_counts_are_stored_by_level_and_the_index_is_notified() -> None:
    group = make_group(priority=12.0)
    queue = queue_with(group, jobs={0: 1, 3: 2, 10: 1})
    priorities.recalculate()
    queue.refresh_from_db()
    assert queue.jobs_of_level == [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1]
    assert queue.weight == 1e-5 + 6 + 1e5
    (told,) = TaskQueueChange.objects.exclude(task_queue_id=CONFIGURATION).values(
        "task_queue_id", "user_priority", "jobs"
    )
    assert told == {"task_queue_id": queue.pk, "user_priority": None, "jobs": 0}


def test_changed_counts_with_equal_priority_are_written() -> None:
    queue = queue_with(make_group(priority=12.0), jobs={3: 1})
    assert priorities.recalculate() == 1
    TaskQueueChange.objects.all().delete()
    for _ in range(3):
        make_queued_job(task_queue=queue, user_priority=1)
    QueuedJob.objects.filter(user_priority=3).delete()
    assert priorities.recalculate() == 0  # another priority had none
    queue.refresh_from_db()
    assert (queue.weight, queue.jobs_of_level[:4]) == (3.0, [0, 3, 0, 0])
    assert TaskQueueChange.objects.get().task_queue_id == queue.pk


def test_an_empty_queue_weighs_nothing_and_keeps_its_priority() -> None:
    """With priority 0 a job that comes into it would not be drawn until the next evaluation."""
    queue = queue_with(make_group(priority=12.0), jobs={3: 1})
    priorities.recalculate()
    QueuedJob.objects.all().delete()
    priorities.recalculate()
    queue.refresh_from_db()
    assert (queue.weight, queue.jobs_of_level, queue.priority) == (0.0, [0] * 11, 12.0)


#: Of each queue: its group, its owner, and the jobs that wait in it by user priority.
queues_of_three_groups = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.dictionaries(st.integers(0, 10), st.integers(1, 3), max_size=3)),
    max_size=12,
)


@given(
    queues=queues_of_three_groups,
    shares=st.tuples(*[st.just(0.0) | st.floats(1e-9, 1e12)] * 3),
    sharing=st.tuples(*[st.booleans()] * 3),
    only_changed=st.booleans(),
)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_sql_and_python_divide_shares_equally(
    db: None,
    queues: list[tuple[int, int, dict[int, int]]],
    shares: tuple[float, ...],
    sharing: tuple[bool, ...],
    only_changed: bool,
) -> None:
    for table in (QueuedJob, TaskQueue, ChangedGroup):
        table.objects.all().delete()
    groups = [make_group(priority=share, shares_jobs=shared) for share, shared in zip(shares, sharing, strict=True)]
    owners = [make_user() for _ in range(3)]
    loads: dict[int, list[QueueLoad]] = {group.pk: [] for group in groups}
    for number, (of_group, of_owner, jobs) in enumerate(queues):
        queue = queue_with(groups[of_group], owner=owners[of_owner], jobs=jobs, cpu_time_s=number + 1)
        load = QueueLoad(task_queue_id=queue.pk, owner_id=owners[of_owner].pk, weight=total_weight(jobs))
        loads[queue.group_id] += [load] if jobs else []
    ChangedGroup.objects.bulk_create([ChangedGroup(group=group, changed_at=NOW) for group in groups])
    priorities.recalculate(only_changed=only_changed)
    for group in groups:
        expected = split_share(group.priority, loads[group.pk], shared=group.shares_jobs)
        stored = dict(TaskQueue.objects.filter(group=group, weight__gt=0).values_list("pk", "priority"))
        assert stored.keys() == expected.keys()
        assert all(isclose(stored[pk], priority, rel_tol=1e-9) for pk, priority in expected.items())


def test_only_marked_groups_are_recalculated_and_unmarked() -> None:
    vo = make_vo()
    changed, other = make_group(vo=vo, priority=5.0), make_group(vo=vo, priority=5.0)
    one, two = queue_with(changed, jobs={1: 1}), queue_with(other, jobs={1: 1})
    ChangedGroup.objects.create(group=changed, changed_at=NOW)
    assert priorities.recalculate(only_changed=True) == 1
    assert priority_of(one, two) == [5.0, 0.0]
    assert not ChangedGroup.objects.exists()


def test_where_shares_are_corrected_by_history_a_changed_group_marks_all_of_its_vo() -> None:
    corrected, plain = make_vo(history_fair_share=True), make_vo()
    one, two, three = make_group(vo=corrected), make_group(vo=corrected), make_group(vo=plain)
    make_group(vo=plain)
    for group in (one, three):
        priorities.mark_changed(group_id=group.pk, now=NOW)
    assert sorted(ChangedGroup.objects.values_list("group", flat=True)) == [one.pk, two.pk, three.pk]


def test_without_marked_groups_nothing_is_recalculated() -> None:
    queue_with(make_group(priority=5.0), jobs={1: 1})
    assert priorities.recalculate(only_changed=True) == 0


def test_a_group_of_priority_zero_has_queues_of_priority_zero() -> None:
    queue = queue_with(make_group(priority=0.0), jobs={10: 4})
    priorities.recalculate()
    assert priority_of(queue) == [0.0]


def test_an_extremely_small_priority_stops_no_other_evaluation() -> None:
    queues = [queue_with(make_group(priority=share), jobs={1: 1}) for share in (1e-310, 5.0)]
    priorities.recalculate()
    assert priority_of(*queues) == [0.0, 5.0]


def test_a_group_with_an_empty_queue_stays_marked() -> None:
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
