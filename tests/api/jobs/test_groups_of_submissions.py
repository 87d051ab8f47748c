"""The group of jobs that name none, after memberships have changed (ADR 39)."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from tests import factories
from wms.accounts.models import VO, Group, Membership, User
from wms.jobs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def vo() -> VO:
    factories.make_queue()  # a VO without any queue is warned of
    return factories.make_vo(name="lhcb")


@pytest.fixture
def users(vo: VO) -> Group:
    return factories.make_group(name="lhcb_user", vo=vo)


@pytest.fixture
def prod(vo: VO) -> Group:
    return factories.make_group(name="lhcb_prod", vo=vo)


@pytest.fixture
def alice(users: Group, prod: Group) -> User:
    return factories.make_user(username="alice", groups=[users, prod], default_group=users)


def submit(user: User, *, status: int = 201, **body: object) -> dict[str, Any]:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {factories.make_token(user)}")
    answer = client.post("/api/v1/jobs/", {"executable": "run", **body}, format="json")
    assert answer.status_code == status, answer.content
    said: dict[str, Any] = answer.json()
    return said


LEFT = (
    "You named no group and are no longer a member of lhcb_user: the jobs act in lhcb_prod. Name the group, or have "
    "your default group changed."
)
#: In explain's words, and of a group that was named too (ADR 32).
NEVER_DRAWN = "It is never drawn, because its group lhcb_prod has priority 0; a manager of lhcb can change that."


def leave(user: User, group: Group) -> None:
    Membership.objects.filter(user=user, group=group).delete()


def test_the_only_remaining_group_is_used_and_named(alice: User, users: Group, prod: Group) -> None:
    assert submit(alice)["warnings"] == []
    leave(alice, users)
    assert submit(alice)["warnings"] == [LEFT]
    assert Job.objects.latest("pk").group == prod
    assert submit(alice, group="lhcb_prod")["warnings"] == []
    # The page of the portal names the same, and a default group that is right again is not worth a word.
    User.objects.update(default_group=prod)
    assert submit(alice)["warnings"] == []


def test_a_remaining_group_other_than_that_of_the_last_job_is_named(alice: User, users: Group, prod: Group) -> None:
    User.objects.update(default_group=None)
    leave(alice, prod)
    alice.refresh_from_db()
    assert submit(alice)["warnings"] == []
    leave(alice, users)
    Membership.objects.create(user=alice, group=prod)
    assert submit(alice)["warnings"] == [LEFT]
    assert submit(alice)["warnings"] == []


def test_a_group_of_priority_zero_is_warned_of_once(alice: User, users: Group, prod: Group) -> None:
    Group.objects.filter(pk=prod.pk).update(priority=0.0)
    leave(alice, users)
    assert submit(alice)["warnings"] == [LEFT, NEVER_DRAWN]
    User.objects.update(default_group=prod)
    assert submit(alice)["warnings"] == [NEVER_DRAWN]
    assert submit(alice, group="lhcb_prod")["warnings"] == [NEVER_DRAWN]


def test_without_a_default_group_one_of_several_must_be_named(alice: User, users: Group, vo: VO) -> None:
    Membership.objects.create(user=alice, group=factories.make_group(name="lhcb_test", vo=vo))
    leave(alice, users)
    refused = submit(alice, status=400)
    sentence = (
        "You are no longer a member of your default group lhcb_user; name the group to act in, one of lhcb_prod, "
        "lhcb_test."
    )
    assert (refused["code"], refused["errors"]) == ("group_needed", {"group": [sentence]})
    assert not Job.objects.exists()


def test_a_repeated_request_returns_the_same_warnings(alice: User, users: Group) -> None:
    leave(alice, users)
    request_id = "5e5b5b0e-0000-4000-8000-000000000001"
    first, again = (submit(alice, request_id=request_id) for _ in range(2))
    assert first == again
    assert first["warnings"] == [LEFT]
