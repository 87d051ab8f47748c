"""The two races of DESIGN §3.2, and many submissions at once, on real connections."""

from collections.abc import Callable
from functools import partial
from threading import Thread

import pytest
from django.db import connection, transaction

from taskqueues.domain.definition import QueueDefinition, define
from taskqueues.models import QueuedJob, TaskQueue, TaskQueueQuerySet
from taskqueues.services import queueing
from taskqueues.services.queueing import WaitingJob
from tests.factories import NOW, make_group, make_user
from tests.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def definitions(number: int) -> list[QueueDefinition]:
    group = make_group()
    owner = make_user(groups=[group])
    return [
        define(
            owner_id=owner.pk,
            group_id=group.pk,
            vo_id=group.vo_id,
            setup="S",
            cpu_time_s=500,
            job_type=f"type{n}",
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
    look = TaskQueueQuerySet.without_jobs
    looks: list[int] = []

    def look_while_a_job_arrives(queues: TaskQueueQuerySet) -> TaskQueueQuerySet:
        looks.append(1)
        if len(looks) == 1:
            # As the snapshot of the first statement, taken before the job was committed, would have it.
            at_once([lambda: put((2, wanted))])
            return queues
        return look(queues)

    monkeypatch.setattr(TaskQueueQuerySet, "without_jobs", look_while_a_job_arrives)
    assert queueing.remove_empty(now=NOW) == 0
    assert len(looks) == 2
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
        _wait_until_somebody_waits_for_a_lock()
        TaskQueue.objects.filter(pk=old).delete()
    worker.join(60)
    assert TaskQueue.objects.get().pk == new[0][2] != old
    assert QueuedJob.objects.get().task_queue_id == new[0][2]


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
    assert not TaskQueue.objects.without_jobs().exists()


def _wait_until_somebody_waits_for_a_lock() -> None:
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    with connection.cursor() as cursor:
        for _ in range(10_000):
            cursor.execute(waiting)
            if cursor.fetchone()[0]:
                return
            cursor.execute("SELECT pg_sleep(0.002)")
    raise AssertionError("nobody waits for a lock")
