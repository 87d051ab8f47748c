"""The index follows the database, in any order of changes (docs/architecture.md, The task-queue index)."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from pytest_django import Settings

from taskqueues import sql
from taskqueues.models import QueuedJob, TaskQueue, TaskQueueChange
from taskqueues.services import index_changes, priorities, queueing
from taskqueues.services.index import shared
from taskqueues.services.index.shared import index
from taskqueues.services.index.snapshot import Snapshot
from tests.factories import make_group, make_job, make_site, make_user
from tests.pace import wait_for
from tests.threads import at_once, until_somebody_waits_for_a_lock
from wms.accounts.models import Group, User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.models import Job
from wms.jobs.queries import changes
from wms.jobs.services import control

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True, priority=10.0)


@pytest.fixture
def owner(group: Group) -> User:
    return make_user(groups=[group])


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    """Return a thread with a connection of its own."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        yield pool
        pool.submit(lambda: connection.close()).result()  # noqa: PLW0108 - its own, not that of this thread


def queued(job: Job) -> QueuedJob:
    return QueuedJob.objects.select_related("task_queue").get(pk=job.pk)


def jobs_of(snapshot: Snapshot, task_queue: TaskQueue) -> dict[int, int]:
    """Return {user priority: jobs} of the queue in the index; empty if the index does not contain the queue."""
    row = snapshot.row_of.get(task_queue.pk)
    return {} if row is None else {level: int(jobs) for level, jobs in enumerate(snapshot.jobs[row]) if jobs}


def test_a_transaction_that_began_earlier_and_committed_later_is_not_missed(
    group: Group, owner: User, elsewhere: ThreadPoolExecutor
) -> None:
    index.renewed()
    with transaction.atomic():
        early = make_job(group=group, owner=owner, cpu_time_s=500)
        late: Future[Job] = elsewhere.submit(lambda: make_job(group=group, owner=owner, cpu_time_s=5000))
        late_queue = queued(late.result()).task_queue
        seen = elsewhere.submit(index.renewed).result()
        assert jobs_of(seen, late_queue) == {1: 1}
        early_queue = queued(early).task_queue
        assert jobs_of(seen, early_queue) == {}
    assert jobs_of(index.renewed(), early_queue) == {1: 1}
    assert jobs_of(index.renewed(), late_queue) == {1: 1}


def test_a_new_level_is_in_the_index(group: Group, owner: User) -> None:
    task_queue = queued(make_job(group=group, owner=owner, priority=1)).task_queue
    assert jobs_of(index.renewed(), task_queue) == {1: 1}
    for _ in range(3):
        make_job(group=group, owner=owner, priority=9)
    assert jobs_of(index.renewed(), task_queue) == {1: 1, 9: 3}


def test_a_refilled_level_is_in_the_index(group: Group, owner: User) -> None:
    """A claim proves the level empty; what comes later is news."""
    job = make_job(group=group, owner=owner)
    task_queue = queued(job).task_queue
    snapshot = index.renewed()
    with transaction.atomic():
        queueing.withdraw([job.pk])
    index.note_empty(task_queue.pk, 1, snapshot=snapshot)
    assert jobs_of(index.renewed(), task_queue) == {}
    make_job(group=group, owner=owner)
    assert jobs_of(index.renewed(), task_queue) == {1: 1}


def test_an_empty_level_of_an_older_reading_does_not_hide_newer_jobs(group: Group, owner: User) -> None:
    job = make_job(group=group, owner=owner)
    task_queue = queued(job).task_queue
    old = index.renewed()
    make_job(group=group, owner=owner)
    index.renewed()
    index.note_empty(task_queue.pk, 1, snapshot=old)
    assert jobs_of(index.renewed(), task_queue) == {1: 2}


def test_withdrawals_do_not_hide_jobs_added_after_an_empty_level(group: Group, owner: User) -> None:
    jobs = [make_job(group=group, owner=owner) for _ in range(5)]
    task_queue = queued(jobs[0]).task_queue
    snapshot = index.renewed()
    with transaction.atomic():
        queueing.withdraw([job.pk for job in jobs])
    index.note_empty(task_queue.pk, 1, snapshot=snapshot)
    make_job(group=group, owner=owner)
    assert jobs_of(index.renewed(), task_queue)[1] >= 1


def test_removed_and_new_queues(group: Group, owner: User) -> None:
    jobs = [make_job(group=group, owner=owner, job_type=f"type{number}") for number in range(4)]
    first = index.renewed()
    assert len(first.columns) == 4
    with transaction.atomic():
        queueing.withdraw([jobs[1].pk])
    queueing.remove_empty(now=timezone.now())
    new = make_job(group=group, owner=owner, job_type="another")
    second = index.renewed()
    assert sorted(second.columns.task_queue_id.tolist()) == sorted(TaskQueue.objects.values_list("pk", flat=True))
    assert jobs_of(second, queued(new).task_queue) == {1: 1}
    assert len(first.columns) == 4  # who still works with it is not disturbed


def test_priorities_and_counts_of_an_evaluation_are_in_the_index(group: Group, owner: User) -> None:
    one = queued(make_job(group=group, owner=owner, job_type="one")).task_queue
    other = queued(make_job(group=group, owner=owner, job_type="other")).task_queue
    index.renewed()
    for _ in range(2):
        make_job(group=group, owner=owner, job_type="other")
    QueuedJob.objects.filter(task_queue=one).delete()  # as claims of other processes, of which nobody tells
    priorities.recalculate()
    snapshot = index.renewed()
    assert jobs_of(snapshot, one) == {}
    assert jobs_of(snapshot, other) == {1: 3}
    row = snapshot.row_of.get(other.pk)
    assert row is not None
    assert snapshot.priority[row] == 10.0


def test_jobs_added_during_an_evaluation_are_counted_once(
    group: Group, owner: User, elsewhere: ThreadPoolExecutor
) -> None:
    """The evaluation has counted and not committed; a job comes, and the index reads it before and after."""
    task_queue = queued(make_job(group=group, owner=owner)).task_queue
    index.renewed()

    def evaluate(after: Callable[[], object]) -> None:
        with transaction.atomic():
            sql.divide_shares(priorities._shares(Group.objects.all()), of_all_groups=True)
            after()

    def another() -> None:
        elsewhere.submit(lambda: make_job(group=group, owner=owner)).result()
        assert jobs_of(elsewhere.submit(index.renewed).result(), task_queue) == {1: 2}

    evaluate(another)
    assert jobs_of(index.renewed(), task_queue) == {1: 2}


def test_suspending_an_owner_reaches_the_index_and_so_does_the_end_of_it(group: Group, owner: User) -> None:
    task_queue = queued(make_job(group=group, owner=owner)).task_queue

    def is_trusted() -> bool:
        snapshot = index.renewed()
        return bool(snapshot.columns.trusted[snapshot.row_of.get(task_queue.pk)])

    assert is_trusted()
    for active in (False, True):
        User.objects.filter(pk=owner.pk).update(is_active=active)
        assert is_trusted() is active


def test_the_configuration_cache_lasts_until_a_change(group: Group, owner: User) -> None:
    index.renewed().memo["a question"] = "an answer"
    make_job(group=group, owner=owner)
    assert index.renewed().memo == {"a question": "an answer"}
    make_site()
    assert index.renewed().memo == {}


def test_a_hundred_waiting_requests_share_a_few_readings(group: Group) -> None:
    index.renewed()
    together = Barrier(100)

    def wait() -> Snapshot:
        together.wait()
        return index.renewed()

    found = at_once([wait] * 100)
    assert len({id(snapshot) for snapshot in found}) <= 5


def test_a_waiting_request_wakes_no_other(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who woke one another kept the processors from the reading for which they all waited."""
    index.renewed()
    waits: list[None] = []
    wait = index._changed.wait

    def counted() -> bool:
        waits.append(None)
        return wait()

    monkeypatch.setattr(index._changed, "wait", counted)
    with ThreadPoolExecutor(max_workers=1) as everybody:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE taskqueues_taskqueuechange IN ACCESS EXCLUSIVE MODE")
            found = everybody.submit(at_once, [index.renewed] * 10)
            wait_for(lambda: len(waits) >= 10)
            until_somebody_waits_for_a_lock(or_done=found)
            time.sleep(0.2)
            # Who came while an earlier reading was under way waits once for this one, and once for the next.
            assert len(waits) <= 20
        assert len(found.result()) == 10


def test_an_index_whose_connection_was_cut_reads_again(group: Group, owner: User) -> None:
    index.renewed()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    task_queue = queued(make_job(group=group, owner=owner)).task_queue
    assert jobs_of(index.renewed(), task_queue) == {1: 1}


def test_after_a_long_pause_the_index_is_read_completely(
    group: Group, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes that it has missed are removed from the table by then."""
    index.renewed()
    task_queue = queued(make_job(group=group, owner=owner)).task_queue
    TaskQueueChange.objects.update(changed_at=timezone.now() - index_changes.KEPT - timedelta(seconds=1))
    assert index_changes.remove_old() > 0
    monkeypatch.setattr(shared, "ANEW_AFTER_S", -1.0)
    assert jobs_of(index.renewed(), task_queue) == {1: 1}


def test_changes_of_another_server_do_not_stop_the_matching_of_a_restored_database(group: Group, owner: User) -> None:
    queued(make_job(group=group, owner=owner))
    own = set(TaskQueueChange.objects.values_list("id", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO taskqueues_taskqueuechange (task_queue_id, jobs, xid) VALUES (0, 0, %s::text::xid8)",
            [str(changes.now().end + 1_000_000)],
        )
    assert index_changes.remove_old() == 1
    assert set(TaskQueueChange.objects.values_list("id", flat=True)) == own != set()


def test_jobs_that_are_killed_are_counted_out(group: Group, owner: User) -> None:
    jobs = [make_job(group=group, owner=owner) for _ in range(6)]
    task_queue = queued(jobs[0]).task_queue
    index.renewed()
    control.apply(Action.KILL, [job.pk for job in jobs[:4]], by=owner, now=timezone.now())
    assert jobs_of(index.renewed(), task_queue) == {1: 2}


def test_with_a_greatest_age_of_zero_each_match_reads_first(group: Group, owner: User, settings: Settings) -> None:
    before = index.renewed()
    settings.WMS_TASK_QUEUE_INDEX_MAX_AGE_S = 60
    task_queue = queued(make_job(group=group, owner=owner)).task_queue
    assert jobs_of(before, task_queue) == {}
    settings.WMS_TASK_QUEUE_INDEX_MAX_AGE_S = 0
    assert jobs_of(index.current(), task_queue) == {1: 1}


def test_a_failed_reading_is_raised_to_waiting_requests_only(
    group: Group, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.renewed()

    def fail(_: Snapshot) -> None:
        raise OperationalError("the server is gone")

    with monkeypatch.context() as broken:
        broken.setattr(shared, "read_changes", fail)
        with pytest.raises(shared.ReadingFailedError):
            index.renewed()
    task_queue = queued(make_job(group=group, owner=owner)).task_queue
    assert jobs_of(index.renewed(), task_queue) == {1: 1}
