"""The two races of docs/architecture.md, Task queues, and many concurrent submissions, on real connections."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Thread

import pytest
from django.db import connection, transaction

from resources.domain.requirements import canonical, submit_pool_id
from taskqueues import sql
from taskqueues.domain.definition import JobRequirements, QueueDefinition, define
from taskqueues.domain.shares import GroupShare
from taskqueues.models import ChangedGroup, QueuedJob, SubmitPool, TaskQueue
from taskqueues.services import priorities, queueing, submit_pools
from taskqueues.services.queueing import WaitingJob
from tests.factories import NOW, make_group, make_queue, make_user, make_vo
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.kernel.db import LockKey, lock

pytestmark = pytest.mark.django_db(transaction=True)


def definitions(number: int) -> list[QueueDefinition]:
    group = make_group()
    owner = make_user(groups=[group])
    return [
        define(
            JobRequirements(
                owner_id=owner.pk, group_id=group.pk, vo_id=group.vo_id, setup="S", cpu_time_s=500, job_type=f"type{n}"
            ),
            rounding=queueing.rounding(),
        )
        for n in range(number)
    ]


def put(*jobs: tuple[int, QueueDefinition]) -> dict[int, int]:
    with transaction.atomic(durable=True):
        waiting = [WaitingJob(job_id=job_id, definition=wanted, user_priority=1) for job_id, wanted in jobs]
        return dict(queueing.enqueue(waiting, now=NOW))


@pytest.mark.parametrize("attempt", range(5))
def test_sixteen_submissions_of_one_new_definition_make_one_queue(attempt: int) -> None:
    (wanted,) = definitions(1)
    answers = at_once([partial(put, (n, wanted)) for n in range(16)])
    assert len({queue for answer in answers for queue in answer.values()}) == 1
    assert TaskQueue.objects.count() == 1
    assert QueuedJob.objects.count() == 16


def test_submissions_of_the_same_new_definitions_in_another_order_do_not_deadlock() -> None:
    wanted = definitions(20)

    def submit(n: int) -> dict[int, int]:
        order = wanted if n % 2 else wanted[::-1]
        return put(*((n * 100 + position, definition) for position, definition in enumerate(order)))

    at_once([partial(submit, n) for n in range(8)])
    assert TaskQueue.objects.count() == 20
    assert QueuedJob.objects.count() == 160


def test_a_queue_that_a_submission_is_about_to_use_is_not_removed() -> None:
    (wanted,) = definitions(1)
    queue_id = put((1, wanted))[1]
    QueuedJob.objects.all().delete()
    with transaction.atomic():
        # The submission has found the queue, its job is not inserted yet.
        assert queueing.enqueue([WaitingJob(job_id=2, definition=wanted, user_priority=1)], now=NOW) == {2: queue_id}
        (removed,) = at_once([lambda: queueing.remove_empty(now=NOW)])
        assert removed == 0
    assert list(QueuedJob.objects.values_list("job_id", "task_queue_id")) == [(2, queue_id)]
    assert queueing.remove_empty(now=NOW) == 0


def test_a_job_committed_between_the_look_and_the_lock_saves_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal's first statement finds the queue empty and locks it; its second one must see the job."""
    (wanted,) = definitions(1)
    queue_id = put((1, wanted))[1]
    QueuedJob.objects.all().delete()
    looks: list[list[int]] = []

    def look_while_a_job_arrives(**_bounds: object) -> list[int]:
        at_once([lambda: put((2, wanted))])
        # As the snapshot of the first statement, taken before the job was committed, would have it.
        looks.append(list(TaskQueue.objects.select_for_update().values_list("pk", flat=True)))
        return looks[-1]

    monkeypatch.setattr(sql, "lock_empty_queues", look_while_a_job_arrives)
    assert queueing.remove_empty(now=NOW) == 0
    assert looks == [[queue_id]]
    assert TaskQueue.objects.get().pk == queue_id


def test_a_submission_that_finds_its_queue_gone_makes_a_new_one() -> None:
    """A removal holds the queue while a submission of its definition waits for the lock."""
    (wanted,) = definitions(1)
    old = put((1, wanted))[1]
    QueuedJob.objects.all().delete()
    new: list[dict[int, int]] = []

    def submit() -> None:
        try:
            new.append(put((2, wanted)))
        finally:
            connection.close()

    with transaction.atomic():
        TaskQueue.objects.select_for_update().get(pk=old)
        worker = Thread(target=submit)
        worker.start()
        until_somebody_waits_for_a_lock()
        TaskQueue.objects.filter(pk=old).delete()
    worker.join()
    assert TaskQueue.objects.get().pk == new[0][2] != old
    assert QueuedJob.objects.get().task_queue_id == new[0][2]


def test_a_retried_submission_keeps_no_locks_on_its_new_queues(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two definitions one is there, and gone before it is locked; another submission of both comes in between."""
    wanted = sorted(definitions(2), key=QueueDefinition.signature)
    keep = sql.keep_queues
    looks: list[int] = []

    def another_submission() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '5s'")
        put((3, wanted[0]), (4, wanted[1]))

    def keep_late(signatures: Collection[bytes]) -> dict[bytes, int]:
        looks.append(len(looks) + 1)
        if looks == [1, 2]:
            return {wanted[1].signature(): keep(signatures)[wanted[1].signature()]}
        if looks == [1, 2, 3]:
            monkeypatch.setattr(sql, "keep_queues", keep)
            at_once([another_submission])
        return keep(signatures)

    monkeypatch.setattr(sql, "keep_queues", keep_late)
    queue_of = put((1, wanted[0]), (2, wanted[1]))
    assert TaskQueue.objects.count() == 2
    assert QueuedJob.objects.filter(task_queue=queue_of[1]).count() == 2


def test_a_refresh_of_all_pools_does_not_deadlock_with_a_submission_that_needs_two() -> None:
    """Submissions note the use of pools in the order of their ids; the table has them in another one."""
    vo = make_vo()
    make_queue(parameters={"Memory": 4000})
    later, earlier = sorted(
        ({"Memory": 4000 - n} for n in (0, 1)),
        key=lambda wanted: submit_pool_id(vo.name, canonical(wanted)),
        reverse=True,
    )
    for wanted in (later, earlier):
        with transaction.atomic():
            submit_pools.register(vo=vo, requirements=wanted, now=NOW)
    later_use = NOW + timedelta(hours=2)

    def refresh() -> None:
        try:
            submit_pools.refresh_all(now=later_use)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            submit_pools.register(vo=vo, requirements=earlier, now=later_use)
            refreshing = pool.submit(refresh)
            until_somebody_waits_for_a_lock()
            submit_pools.register(vo=vo, requirements=later, now=later_use)
        refreshing.result(timeout=within(60))
    assert set(SubmitPool.objects.values_list("last_used_at", "refreshed_at")) == {(later_use, later_use)}


def test_a_queue_created_during_an_evaluation_is_counted_in_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = definitions(2)
    divide_shares = sql.divide_shares

    def divide_while_a_queue_comes(shares: Collection[GroupShare], *, of_all_groups: bool) -> int:
        monkeypatch.setattr(sql, "divide_shares", divide_shares)
        changed = divide_shares(shares, of_all_groups=of_all_groups)
        at_once([lambda: put((2, second))])
        return changed

    put((1, first))
    ChangedGroup.objects.all().delete()
    monkeypatch.setattr(sql, "divide_shares", divide_while_a_queue_comes)
    priorities.recalculate()
    assert ChangedGroup.objects.count() == 1
    assert priorities.recalculate(only_changed=True) == 1
    assert list(TaskQueue.objects.values_list("priority", flat=True)) == [500.0, 500.0]


def test_counted_jobs_are_those_of_the_recorded_snapshot() -> None:
    """An index adds what the snapshot does not hold: were it another's than the count's, a job would count twice."""
    (wanted,) = definitions(1)
    put((1, wanted))
    with transaction.atomic():
        queueing.enqueue([WaitingJob(job_id=2, definition=wanted, user_priority=1)], now=NOW)
        at_once([priorities.recalculate])  # nor does it wait for a submission
    assert (TaskQueue.objects.get().jobs_of_level[1], _jobs_in_snapshot_of_last_count()) == (1, 1)
    priorities.recalculate()
    assert (TaskQueue.objects.get().jobs_of_level[1], _jobs_in_snapshot_of_last_count()) == (2, 2)


def _jobs_in_snapshot_of_last_count() -> int:
    with connection.cursor() as cursor:
        cursor.execute("""
            WITH told AS (SELECT * FROM taskqueues_taskqueuechange WHERE counted_in <> '' ORDER BY id DESC LIMIT 1)
            SELECT sum(change.jobs)
              FROM taskqueues_taskqueuechange AS change, told
             WHERE pg_visible_in_snapshot(change.xid, told.counted_in::pg_snapshot)
        """)
        (jobs,) = cursor.fetchone()
    return int(jobs)


def test_of_two_recalculations_the_second_looks_after_the_first_has_written() -> None:
    (wanted,) = definitions(1)
    put((1, wanted))
    TaskQueue.objects.update(priority=1.0)

    def recalculate() -> int:
        try:
            return priorities.recalculate()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        with transaction.atomic():
            lock(LockKey.RECALCULATE_PRIORITIES)
            second = pool.submit(recalculate)
            until_somebody_waits_for_a_lock()
            TaskQueue.objects.update(priority=1000.0)
        assert second.result(timeout=within(60)) == 0


def test_submissions_and_removals_side_by_side_lose_no_job() -> None:
    wanted = definitions(3)

    def submit(n: int) -> int:
        for round_ in range(20):
            job_id = n * 1000 + round_
            put((job_id, wanted[round_ % 3]))
            if round_ % 2:  # every other job is matched at once
                with transaction.atomic():
                    assert queueing.withdraw([job_id]) == {job_id}
        return 10

    def remove() -> int:
        for _ in range(60):
            queueing.remove_empty(now=NOW)
        return 0

    submissions: list[Callable[[], int]] = [partial(submit, n) for n in range(6)]
    left = sum(at_once([*submissions, remove, remove]))
    assert QueuedJob.objects.count() == left
    queueing.remove_empty(now=NOW)
    assert TaskQueue.objects.with_jobs().count() == TaskQueue.objects.count()
