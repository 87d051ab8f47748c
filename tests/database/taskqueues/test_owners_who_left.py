"""Jobs of owners who are suspended, or no longer in their group, wait without a part of the group's share (ADR 39)."""

from collections.abc import Callable

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.urls import reverse

from matching.queries.invariants import violations
from taskqueues.domain.definition import JobRequirements, QueueDefinition, define
from taskqueues.models import ChangedGroup, TaskQueue, TaskQueueChange
from taskqueues.models.changes import CONFIGURATION
from taskqueues.services import priorities
from taskqueues.services.index.shared import index
from taskqueues.services.queueing import rounding
from tests.database.configuration.configuring import apply
from tests.factories import make_group, make_job, make_user, make_vo
from wms.accounts.models import Group, Membership, User
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def group() -> Group:
    return make_group(name="lhcb_user", vo=make_vo(name="lhcb"), priority=12.0)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


@pytest.fixture
def bob(group: Group) -> User:
    return make_user(username="bob", groups=[group])


def queue_of(owner: User, group: Group) -> TaskQueue:
    """Return a task queue with a waiting job of the owner."""
    job = make_job(owner=owner, group=group)
    return TaskQueue.objects.get(queued_jobs=job.pk)


def leave(owner: User, group: Group) -> None:
    Membership.objects.filter(user=owner, group=group).delete()


def rejoin(owner: User, group: Group) -> None:
    Membership.objects.create(user=owner, group=group)


def settled() -> None:
    """Evaluate marked task queues, and no others."""
    priorities.recalculate(only_changed=True)


def priority_of(*queues: TaskQueue) -> list[float]:
    return [TaskQueue.objects.get(pk=queue.pk).priority for queue in queues]


def is_trusted(queue: TaskQueue) -> bool:
    snapshot = index.renewed()
    return bool(snapshot.columns.trusted[snapshot.row_of.get(queue.pk)])


def test_former_members_have_no_part_in_the_share(group: Group, alice: User, bob: User) -> None:
    hers, his = queue_of(alice, group), queue_of(bob, group)
    settled()
    assert priority_of(hers, his) == [6.0, 6.0]
    leave(alice, group)
    settled()
    assert priority_of(hers, his) == [0.0, 12.0]
    assert not is_trusted(hers)
    assert is_trusted(his)
    assert list(violations()) == []
    rejoin(alice, group)
    settled()
    assert priority_of(hers, his) == [6.0, 6.0]
    assert is_trusted(hers)
    assert Job.objects.filter(status="Waiting").count() == 2


def test_suspended_users_have_no_part_in_the_share(group: Group, alice: User, bob: User) -> None:
    hers, his = queue_of(alice, group), queue_of(bob, group)
    settled()
    for is_active, expected in ((False, [0.0, 12.0]), (True, [6.0, 6.0])):
        User.objects.filter(pk=alice.pk).update(is_active=is_active)
        settled()
        assert priority_of(hers, his) == expected
        assert list(violations()) == []


def test_a_group_whose_owners_have_all_left_has_no_share_to_divide(group: Group, alice: User) -> None:
    hers = queue_of(alice, group)
    leave(alice, group)
    priorities.recalculate()
    assert priority_of(hers) == [0.0]
    assert list(violations()) == []


def test_another_group_of_the_same_owner_is_not_concerned(group: Group, alice: User) -> None:
    other = make_group(vo=group.vo, priority=3.0)
    rejoin(alice, other)
    hers, there = queue_of(alice, group), queue_of(alice, other)
    settled()
    leave(alice, group)
    assert set(ChangedGroup.objects.values_list("group", flat=True)) == {group.pk}
    settled()
    assert priority_of(hers, there) == [0.0, 3.0]
    assert (is_trusted(hers), is_trusted(there)) == (False, True)


def test_a_new_queue_is_created_with_its_part_of_what_members_divide(group: Group, alice: User, bob: User) -> None:
    queue_of(alice, group)
    priorities.recalculate()
    leave(alice, group)
    his = queue_of(bob, group)
    assert priority_of(his) == [12.0]
    # A job of one who has left that comes into a new queue, because it was rescheduled or edited, has no part either.
    definition = _another(TaskQueue.objects.get(owner=alice))
    assert priorities.of_new_queues({definition: 1.0}) == {definition: 0.0}


def _another(queue: TaskQueue) -> QueueDefinition:
    """Return the definition of a queue of the same owner and group that does not exist yet."""
    return define(
        JobRequirements(
            owner_id=queue.owner_id,
            group_id=queue.group_id,
            vo_id=queue.vo_id,
            setup=queue.setup,
            cpu_time_s=500,
            job_type=queue.job_type,
        ),
        rounding=rounding(),
    )


# ---- By which door ever ----------------------------------------------------------------------------------------------


def _by_row(alice: User, group: Group) -> None:
    Membership.objects.get(user=alice, group=group).delete()


def _by_move(alice: User, group: Group) -> None:
    Membership.objects.filter(user=alice).update(group=make_group(vo=group.vo))


def _by_statement(alice: User, group: Group) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM accounts_membership WHERE user_id = %s", [alice.pk])


def _by_file(alice: User, group: Group) -> None:
    apply("users: [{username: alice, groups: []}]")


def _by_page_of_the_group(alice: User, group: Group) -> None:
    membership = Membership.objects.get(user=alice, group=group)
    form = {
        "priority": str(group.priority),
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-group": group.pk,
        "memberships-0-DELETE": "on",
        "invitations-TOTAL_FORMS": "0",
        "invitations-INITIAL_FORMS": "0",
    }
    assert _operator().post(reverse("admin:accounts_group_change", args=[group.pk]), form).status_code == 302


def _by_page_of_the_user(alice: User, group: Group) -> None:
    membership = Membership.objects.get(user=alice, group=group)
    form = {
        "is_active": "on",
        "username": "alice",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-user": alice.pk,
        "memberships-0-DELETE": "on",
        "dns-TOTAL_FORMS": "0",
        "dns-INITIAL_FORMS": "0",
    }
    assert _operator().post(reverse("admin:accounts_user_change", args=[alice.pk]), form).status_code == 302


def _by_suspension(alice: User, group: Group) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)


def _operator() -> Client:
    client = Client()
    client.force_login(make_user(username="olga", operator=True, staff=True))
    return client


DOORS: list[Callable[[User, Group], None]] = [
    *(_by_row, _by_move, _by_statement, _by_file, _by_page_of_the_group, _by_page_of_the_user, _by_suspension),
]


@pytest.mark.parametrize("leaves", DOORS)
def test_every_membership_change_marks_the_group_and_the_index(
    group: Group, alice: User, bob: User, leaves: Callable[[User, Group], None]
) -> None:
    hers = queue_of(alice, group)
    settled()
    TaskQueueChange.objects.all().delete()
    leaves(alice, group)
    assert ChangedGroup.objects.filter(group=group).exists()
    # What is remembered of members is forgotten too.
    assert {hers.pk, CONFIGURATION} <= set(TaskQueueChange.objects.values_list("task_queue_id", flat=True))
    settled()
    assert priority_of(hers) == [0.0]
    assert not is_trusted(hers)


def test_members_without_waiting_jobs_mark_no_group(group: Group, alice: User) -> None:
    leave(alice, group)
    assert not ChangedGroup.objects.exists()
    with pytest.raises(ValidationError):
        Membership(user=alice).full_clean()


@pytest.mark.django_db(transaction=True)
def test_groups_and_users_are_deleted_with_their_memberships(group: Group, alice: User, bob: User) -> None:
    User.objects.get(pk=alice.pk).delete()
    Group.objects.get(pk=group.pk).delete()
    assert not Membership.objects.exists()
