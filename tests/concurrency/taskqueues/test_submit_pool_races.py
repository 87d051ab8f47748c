"""Submit pools during submissions, changes of resources, refreshes and removal, on real connections (RFC7)."""

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial

import pytest
from django.db import connection, transaction

from resources.models import Queue
from taskqueues import sql
from taskqueues.models import SubmitPool
from taskqueues.services import submit_pools
from tests.factories import NOW, make_job, make_queue, make_task_queue, make_vo
from tests.pace import within
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.accounts.models import VO
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.jobs.services import unused_submit_pools

pytestmark = pytest.mark.django_db(transaction=True)

LATER = NOW + timedelta(hours=2)


def register(vo: VO, memory: int = 4000) -> str:
    with transaction.atomic():
        return submit_pools.register(vo=vo, requirements={"Memory": memory}, now=LATER).id


def members(pool_id: str) -> set[Queue]:
    return set(SubmitPool.objects.get(pk=pool_id).queues.all())


def old_pool(vo: VO, memory: int = 4000) -> str:
    pool_id = register(vo, memory)
    SubmitPool.objects.filter(pk=pool_id).update(last_used_at=NOW)
    return pool_id


def test_a_pool_that_a_submission_is_about_to_use_is_not_removed() -> None:
    vo = make_vo()
    pool_id = old_pool(vo)
    with transaction.atomic():
        assert submit_pools.register(vo=vo, requirements={"Memory": 4000}, now=NOW).id == pool_id
        assert at_once([partial(unused_submit_pools.remove_unused, now=LATER)]) == [0]
    assert SubmitPool.objects.get().pk == pool_id


def test_a_submission_during_the_removal_makes_the_pool_anew() -> None:
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 8000})
    pool_id = old_pool(vo)
    submitted: list[str] = []

    def submit_meanwhile(asked: Collection[str]) -> Collection[str]:
        # The pool is locked from here until it is gone: the submission waits.
        if not submitted and connection.in_atomic_block and _is_locked(pool_id):
            submitted.append(pool_id)
            worker.append(executor.submit(run))
            until_somebody_waits_for_a_lock()
        return ()

    def run() -> str:
        try:
            return register(vo)
        finally:
            connection.close()

    worker: list[object] = []
    with ThreadPoolExecutor(max_workers=1) as executor:
        assert submit_pools.remove_unused(now=LATER, in_use=submit_meanwhile) == 1
        (future,) = worker
        assert future.result(timeout=within(60)) == pool_id  # type: ignore[attr-defined]
    assert members(pool_id) == {queue}
    assert SubmitPool.objects.get().last_used_at == LATER


def _is_locked(pool_id: str) -> bool:
    def try_it() -> bool:
        with transaction.atomic():
            free = SubmitPool.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=pool_id)
            return not list(free)

    (locked,) = at_once([try_it])
    return locked


def test_a_job_that_is_matched_while_the_removal_looks_keeps_its_pool() -> None:
    """It leaves its queue, which is removed, between the look at the queues and the look at the jobs."""
    vo = make_vo()
    pool_id = old_pool(vo)
    job = make_job(status=JobStatus.HELD)
    Job.objects.filter(pk=job.pk).update(submit_pools=[pool_id], status=JobStatus.MATCHED)
    task_queue = make_task_queue(submit_pools=[pool_id])
    looks: list[set[str]] = []
    look = submit_pools._waited_for

    def matched_after_the_look(asked: Collection[str]) -> set[str]:
        looks.append(look(asked))
        if len(looks) == 1:
            at_once([task_queue.delete])
        return looks[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submit_pools, "_waited_for", matched_after_the_look)
        assert unused_submit_pools.remove_unused(now=LATER) == 0
    assert looks[0] == {pool_id}
    assert SubmitPool.objects.get().pk == pool_id


@pytest.mark.parametrize("attempt", range(3))
def test_submissions_removals_and_refreshes_side_by_side_lose_no_pool(attempt: int) -> None:
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 8000})

    def submit(n: int) -> None:
        for turn in range(15):
            memory = 1000 + (n + turn) % 3
            with transaction.atomic():
                pool = submit_pools.register(vo=vo, requirements={"Memory": memory}, now=NOW)
                # A queue that names it would be made here: until the commit it must be there.
                assert SubmitPool.objects.filter(pk=pool.id).exists()
                assert pool.queues == 1

    def remove() -> None:
        for _ in range(30):
            submit_pools.remove_unused(now=LATER, in_use=lambda _pools: ())

    def refresh() -> None:
        for _ in range(15):
            submit_pools.refresh_all(now=NOW)
            submit_pools.refresh_stale(now=NOW)

    submissions: list[Callable[[], None]] = [partial(submit, n) for n in range(4)]
    at_once([*submissions, remove, refresh])
    for pool in SubmitPool.objects.all():
        assert set(pool.queues.all()) == {queue}


def test_a_queue_that_changes_while_a_pool_is_made_is_seen_by_the_next_refresh() -> None:
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 1000})

    def change() -> None:
        with transaction.atomic():
            Queue.objects.filter(pk=queue.pk).update(parameters={"Memory": 8000})
            submit_pools.mark_stale([vo], now=NOW)
        submit_pools.refresh_stale(now=NOW)

    with transaction.atomic():
        pool_id = submit_pools.register(vo=vo, requirements={"Memory": 4000}, now=NOW).id
        at_once([change])
    assert members(pool_id) == set()
    submit_pools.refresh_stale(now=LATER)
    assert members(pool_id) == {queue}


def test_a_mark_added_during_a_refresh_is_for_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    vo = make_vo()
    pool_id = register(vo)
    submit_pools.refresh_stale(now=NOW)
    note_refreshed = sql.note_refreshed

    def change_meanwhile(pool_ids: Collection[str], *, now: object) -> frozenset[str]:
        monkeypatch.setattr(sql, "note_refreshed", note_refreshed)

        def change() -> None:
            with transaction.atomic():
                make_queue(parameters={"Memory": 8000})
                submit_pools.mark_stale([vo], now=NOW)

        at_once([change])
        return note_refreshed(pool_ids, now=NOW)

    with transaction.atomic():
        submit_pools.mark_stale([vo], now=NOW)
    monkeypatch.setattr(sql, "note_refreshed", change_meanwhile)
    assert submit_pools.refresh_stale(now=NOW) == 1
    assert members(pool_id) == set()
    assert submit_pools.refresh_stale(now=NOW) == 1
    assert members(pool_id) == {Queue.objects.get()}


def test_a_queue_that_is_deleted_during_a_refresh_is_left_out() -> None:
    vo = make_vo()
    queue, kept = make_queue(parameters={"Memory": 8000}), make_queue(parameters={"Memory": 8000})
    pool_id = register(vo)
    SubmitPool.objects.get().queues.clear()

    def refresh() -> None:
        try:
            submit_pools.refresh_all(now=NOW)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as executor:
        with transaction.atomic():
            Queue.objects.filter(pk=queue.pk).delete()
            refreshing = executor.submit(refresh)
            until_somebody_waits_for_a_lock()
        refreshing.result(timeout=within(60))
    assert members(pool_id) == {kept}


def test_a_queue_can_be_deleted_while_a_pool_is_made() -> None:
    """Django deletes the memberships that exist; one that is added later is deleted with the queue."""
    vo = make_vo()
    queue = make_queue(parameters={"Memory": 8000})

    def delete() -> None:
        try:
            Queue.objects.filter(pk=queue.pk).delete()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as executor:
        with transaction.atomic():
            pool_id = submit_pools.register(vo=vo, requirements={"Memory": 4000}, now=NOW).id
            deleting = executor.submit(delete)
            until_somebody_waits_for_a_lock()
        deleting.result(timeout=within(60))
    assert members(pool_id) == set()
