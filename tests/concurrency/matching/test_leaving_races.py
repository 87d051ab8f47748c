"""An owner who leaves a group while pilots ask for the jobs that wait there (ADR 39)."""

from random import Random

import pytest
from django.utils import timezone

from matching.models import Match
from taskqueues.services import priorities
from taskqueues.services.index.shared import index
from tests.concurrency.matching.test_claim_races import Interrupted, ask
from tests.factories import make_group, make_job, make_pilot, make_user
from tests.threads import at_once
from wms.accounts.models import Group, Membership, User
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.models import Job
from wms.jobs.services import control

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def group() -> Group:
    return make_group(shares_jobs=True)


@pytest.fixture
def alice(group: Group) -> User:
    return make_user(username="alice", groups=[group])


def leave(owner: User, group: Group) -> None:
    at_once([lambda: Membership.objects.filter(user=owner, group=group).delete()])


def test_a_claim_refuses_a_job_whose_owner_left_after_it_was_drawn(group: Group, alice: User) -> None:
    job = make_job(group=group, owner=alice)
    bobs = make_job(group=group, cpu_time_s=500)
    pilot = make_pilot(vo=group.vo)
    # Drawn from an index that was read before; the next best is given instead.
    assert ask(pilot, chance=Interrupted(lambda: leave(alice, group))) == [bobs.pk]
    assert ask(make_pilot(vo=group.vo), chance=Random(1)) == []
    assert Job.objects.get(pk=job.pk).status == JobStatus.WAITING


def test_the_index_follows_leaving_and_rejoining(group: Group, alice: User) -> None:
    job = make_job(group=group, owner=alice)
    pilot = make_pilot(vo=group.vo)
    index.renewed()
    Membership.objects.filter(user=alice).delete()
    priorities.recalculate(only_changed=True)
    assert ask(pilot, chance=Random(1)) == []
    Membership.objects.create(user=alice, group=group)
    priorities.recalculate(only_changed=True)
    assert ask(pilot, chance=Random(1)) == [job.pk]
    # What runs goes on whoever leaves.
    Membership.objects.filter(user=alice).delete()
    priorities.recalculate(only_changed=True)
    assert Match.objects.get().ended_at is None


def test_cached_membership_is_dropped_when_a_member_leaves(group: Group, alice: User) -> None:
    """A private pilot of Alice runs her mates' jobs as long as she is one of them, also in a process that knew her."""
    pilot = make_pilot(group=group, owner=alice)
    first, second = make_job(group=group), make_job(group=group)
    got = ask(pilot, chance=Random(1))
    assert got in ([first.pk], [second.pk])
    Membership.objects.filter(user=alice).delete()
    index.renewed()  # as the background does within a second
    assert ask(make_pilot(group=group, owner=alice), chance=Random(1)) == []


def test_a_former_member_may_still_kill_and_delete_jobs(group: Group, alice: User) -> None:
    job = make_job(group=group, owner=alice)
    Membership.objects.filter(user=alice).delete()
    for action, status in ((Action.KILL, JobStatus.KILLED), (Action.DELETE, JobStatus.DELETED)):
        control.apply_to_one(action, job.pk, by=alice, now=timezone.now())
        assert Job.objects.get(pk=job.pk).status == status
