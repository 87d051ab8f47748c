"""Adding jobs to task queues and removing them (TQM, docs/architecture.md, Task queues)."""

import pytest
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from taskqueues import sql
from taskqueues.domain.definition import JobRequirements, QueueDefinition, define
from taskqueues.models import ChangedGroup, QueuedJob, TaskQueue
from taskqueues.services import queueing
from taskqueues.services.queueing import WaitingJob
from tests.factories import NOW, make_group, make_queued_job, make_task_queue, make_user
from wms.accounts.models import Group, Membership, User

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(priority=100.0, shares_jobs=True)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


def definition_of(owner: User, group: Group, *, cpu_time_s: int = 10, sites: tuple[str, ...] = ()) -> QueueDefinition:
    return define(
        JobRequirements(
            owner_id=owner.pk,
            group_id=group.pk,
            vo_id=group.vo_id,
            setup=group.vo.setup,
            cpu_time_s=cpu_time_s,
            sites=sites,
            job_type="User",
        ),
        rounding=queueing.rounding(),
    )


def waiting(job_id: int, definition: QueueDefinition, *, user_priority: int = 1) -> WaitingJob:
    return WaitingJob(job_id=job_id, definition=definition, user_priority=user_priority)


def test_jobs_with_equal_requirements_share_one_queue(alice: User, group: Group) -> None:
    short, long = definition_of(alice, group, cpu_time_s=10), definition_of(alice, group, cpu_time_s=400_000)
    queue_of = queueing.enqueue([waiting(1, short), waiting(2, long), waiting(3, short)], now=NOW)
    assert queue_of[1] == queue_of[3] != queue_of[2]
    assert TaskQueue.objects.get(pk=queue_of[1]).cpu_time_s == 500
    assert TaskQueue.objects.get(pk=queue_of[2]).cpu_time_s == 300_000
    assert set(QueuedJob.objects.values_list("job_id", "task_queue_id")) == set(queue_of.items())


def test_a_later_job_finds_the_queue_of_an_earlier_one(alice: User, group: Group) -> None:
    definition = definition_of(alice, group)
    first = queueing.enqueue([waiting(1, definition)], now=NOW)
    assert queueing.enqueue([waiting(2, definition)], now=NOW) == {2: first[1]}
    assert TaskQueue.objects.count() == 1


def test_every_requirement_arrives_in_its_column(alice: User, group: Group) -> None:
    definition = define(
        JobRequirements(
            owner_id=alice.pk,
            group_id=group.pk,
            vo_id=group.vo_id,
            setup="S",
            cpu_time_s=5000,
            submit_pools=("pool",),
            pilot_types=("private",),
            sites=(
                "B",
                "A",
            ),
            grid_ces=("ce",),
            grid_middlewares=("ARC",),
            platforms=("x86_64-el9",),
            job_type="MC",
            tags=("gpu",),
            processors=4,
            memory_mb=1999,
        ),
        rounding=queueing.rounding(),
    )
    pk = queueing.enqueue([waiting(1, definition)], now=NOW)[1]
    row = TaskQueue.objects.filter(pk=pk).values().get()
    assert {name: row[name] for name in ("sites", "memory_mb", "processors", "job_type", "tags", "cpu_time_s")} == {
        "sites": ["A", "B"],
        "memory_mb": 2000,
        "processors": 4,
        "job_type": "MC",
        "tags": ["gpu"],
        "cpu_time_s": 5000,
    }
    assert (row["submit_pools"], row["pilot_types"], row["grid_ces"], row["grid_middlewares"], row["platforms"]) == (
        ["pool"],
        ["private"],
        ["ce"],
        ["ARC"],
        ["x86_64-el9"],
    )


def test_a_queue_is_created_with_its_priority_out_of_the_groups_sum(alice: User, group: Group) -> None:
    queueing.enqueue([waiting(1, definition_of(alice, group), user_priority=3)], now=NOW)
    assert TaskQueue.objects.get().priority == 100.0
    other = definition_of(alice, group, cpu_time_s=5000)
    pk = queueing.enqueue([waiting(2, other, user_priority=1)], now=NOW)[2]
    assert TaskQueue.objects.get(pk=pk).priority == 25.0  # 1 of 3 + 1


def test_the_priority_of_a_new_queue_uses_stored_sums(alice: User, group: Group) -> None:
    first = queueing.enqueue([waiting(1, definition_of(alice, group), user_priority=3)], now=NOW)[1]
    TaskQueue.objects.filter(pk=first).update(weight=9.0)  # as last evaluated
    other = definition_of(alice, group, cpu_time_s=5000)
    pk = queueing.enqueue([waiting(2, other, user_priority=1)], now=NOW)[2]
    assert TaskQueue.objects.get(pk=pk).priority == 10.0  # 1 of 9 + 1
    assert TaskQueue.objects.get(pk=pk).weight == 1.0


def test_new_queues_of_an_owner_without_job_sharing_divide_that_owners_part(alice: User) -> None:
    group = make_group(priority=100.0)
    bob = make_user(groups=[group])
    Membership.objects.create(user=alice, group=group)
    queueing.enqueue(
        [waiting(1, definition_of(bob, group)), waiting(2, definition_of(bob, group, sites=("A",)))], now=NOW
    )
    queueing.enqueue([waiting(3, definition_of(alice, group), user_priority=3)], now=NOW)
    pk = queueing.enqueue([waiting(4, definition_of(alice, group, sites=("A",)), user_priority=2)], now=NOW)[4]
    assert TaskQueue.objects.get(pk=pk).priority == 20.0  # 2 of 3 + 2, of her half


def test_creation_marks_the_group_and_a_job_more_does_not(alice: User, group: Group) -> None:
    definition = definition_of(alice, group)
    queueing.enqueue([waiting(1, definition)], now=NOW)
    assert list(ChangedGroup.objects.values_list("group", flat=True)) == [group.pk]
    ChangedGroup.objects.all().delete()
    queueing.enqueue([waiting(2, definition)], now=NOW)
    assert not ChangedGroup.objects.exists()


def test_withdrawing_returns_the_jobs_that_were_queued(alice: User, group: Group) -> None:
    queueing.enqueue([waiting(n, definition_of(alice, group)) for n in (1, 2, 3)], now=NOW)
    QueuedJob.objects.filter(pk=2).delete()
    assert queueing.withdraw([1, 2, 4]) == {1}
    assert list(QueuedJob.objects.values_list("job_id", flat=True)) == [3]


def test_a_job_waits_in_one_queue_only(alice: User, group: Group) -> None:
    queueing.enqueue([waiting(1, definition_of(alice, group))], now=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        queueing.enqueue([waiting(1, definition_of(alice, group, cpu_time_s=5000))], now=NOW)


def test_only_empty_queues_are_removed_and_their_groups_marked() -> None:
    full, empty = make_task_queue(), make_task_queue()
    make_queued_job(task_queue=full)
    assert queueing.remove_empty(now=NOW) == 1
    assert list(TaskQueue.objects.all()) == [full]
    assert list(ChangedGroup.objects.values_list("group", flat=True)) == [empty.group_id]


def test_removal_looks_at_the_given_queues_only() -> None:
    one, other = make_task_queue(), make_task_queue()
    assert queueing.remove_empty(now=NOW, task_queue_ids=[one.pk]) == 1
    assert list(TaskQueue.objects.all()) == [other]


def test_removal_goes_on_until_no_empty_queue_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "REMOVED_AT_ONCE", 2)
    for _ in range(5):
        make_task_queue()
    assert queueing.remove_empty(now=NOW) == 5
    assert not TaskQueue.objects.exists()


def test_new_queues_are_made_in_the_order_of_their_signatures(alice: User, group: Group) -> None:
    """In one order by all processes, or two submissions of the same new definitions would wait for each other."""
    wanted = [definition_of(alice, group, sites=(f"site{n}",)) for n in range(8)]
    queueing.enqueue([waiting(n, definition) for n, definition in enumerate(wanted)], now=NOW)
    made = [bytes(signature) for signature in TaskQueue.objects.order_by("pk").values_list("signature", flat=True)]
    assert made == sorted(definition.signature() for definition in wanted)


def test_a_withdrawal_looks_its_jobs_up_however_many_they_are_among_those_that_wait() -> None:
    queue = make_task_queue()
    job_ids = range(1, 20_001)
    sql.insert_queued_jobs((job_id, queue.pk, 1) for job_id in job_ids)
    with CaptureQueriesContext(connection) as captured:
        queueing.withdraw(job_ids[::8])
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE taskqueues_queuedjob")
        cursor.execute("EXPLAIN " + captured.captured_queries[0]["sql"])
        plan = "\n".join(row[0] for row in cursor.fetchall())

    assert "Seq Scan" not in plan, plan
