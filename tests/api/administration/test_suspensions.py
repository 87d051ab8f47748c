"""The suspension of people over REST, by the rules of the administration."""

import pytest

from tests.api.administration.conftest import Administration, changes_of, client_of
from tests.factories import make_job, make_token, make_user
from wms.accounts.models import ApiToken, SecurityEvent, User
from wms.jobs.domain.lifecycle import JobStatus

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/users/lhcb_member/suspension/"


def address_of(user: User) -> str:
    return f"/api/v1/users/{user.username}/suspension/"


def test_a_manager_suspends_and_restores_a_member(administration: Administration) -> None:
    member, manager = administration.own.member, administration.manager
    make_job(owner=member, group=administration.own.group)
    make_token(member)
    state = {"username": "lhcb_member", "suspended": False, "running_jobs": 1, "waiting_jobs": 2}
    assert manager.get(ADDRESS).json() == state
    tried = manager.put(ADDRESS, {"reason": "stolen account", "dry_run": True})
    suspended = {**state, "suspended": True, "running_jobs": 0}
    assert (tried.status_code, tried.json()) == (200, {**suspended, "killed_jobs": 1})
    assert User.objects.get(pk=member.pk).is_active
    assert changes_of("user.suspended") == []
    assert member.jobs.filter(status=JobStatus.RUNNING).count() == 1
    for killed in (1, 0):
        answer = manager.put(ADDRESS, {"reason": "stolen account"})
        assert (answer.status_code, answer.json()) == (200, {**suspended, "killed_jobs": killed})
    assert not User.objects.get(pk=member.pk).is_active
    assert not ApiToken.objects.filter(user=member, revoked_at=None).exists()
    # The payload ends (ADR 111).
    assert [*member.jobs.filter(status=JobStatus.KILLED).values_list("minor_status", flat=True)] == ["Owner suspended"]
    assert member.jobs.filter(status=JobStatus.WAITING).count() == 2
    assert [manager.delete(ADDRESS).status_code for _ in range(2)] == [204, 204]
    assert User.objects.get(pk=member.pk).is_active
    assert changes_of("user.suspended") == [
        ("mallory", "user lhcb_member", {"is_active": False, "reason": "stolen account"})
    ]
    assert changes_of("user.restored") == [("mallory", "user lhcb_member", {"is_active": True})]
    row = SecurityEvent.objects.get(kind="user.suspended")
    assert (row.row_type, row.row_id) == ("accounts.user", str(member.pk))


@pytest.mark.parametrize("power", ["of another VO too", "staff", "operator", "superuser", "manager"])
def test_a_manager_suspends_no_member_of_other_vos_or_with_powers(administration: Administration, power: str) -> None:
    own, other = administration.own, administration.other
    user = make_user(
        groups=[own.group, *([other.group] if power == "of another VO too" else [])],
        staff=power == "staff",
        operator=power == "operator",
        superuser=power == "superuser",
        manages=[own.vo] if power == "manager" else [],
    )
    manager = administration.manager
    answers = [manager.get(address_of(user)), manager.put(address_of(user), {}), manager.delete(address_of(user))]
    assert {(each.status_code, each.json()["code"]) for each in answers} == {(403, "forbidden")}
    assert User.objects.get(pk=user.pk).is_active


def test_people_outside_of_the_vo_and_missing_names_get_the_same_answer(administration: Administration) -> None:
    manager = administration.manager
    answers = [manager.put(f"/api/v1/users/{name}/suspension/", {}) for name in ("atlas_member", "missing_user")]
    assert {answer.status_code for answer in answers} == {404}
    assert answers[0].content == answers[1].content
    assert administration.other.member.is_active


def test_an_operator_suspends_everybody_but_superusers(administration: Administration) -> None:
    root = make_user(username="root", superuser=True)
    operator = administration.operator
    assert operator.put(address_of(administration.mallory), {}).status_code == 200
    assert not User.objects.get(username="mallory").is_active
    assert operator.put(address_of(root), {}).json()["detail"] == "Only superusers suspend and restore superusers."
    other_root = client_of(make_user(superuser=True))
    assert other_root.put(address_of(root), {}).status_code == 200


def test_the_numbers_are_of_jobs_that_the_manager_sees(administration: Administration) -> None:
    own, other = administration.own, administration.other
    make_job(owner=own.member, group=other.group)
    own.member.memberships.filter(group=other.group).delete()  # who has left the other VO
    assert administration.manager.get(ADDRESS).json()["waiting_jobs"] == 1
    assert administration.operator.get(ADDRESS).json()["waiting_jobs"] == 2
