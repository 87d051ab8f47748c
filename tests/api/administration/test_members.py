"""Members of groups over REST, by the rules of the administration; and the fresh log-in that their changes need."""

import re
from datetime import timedelta
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from tests.api.administration.conftest import Administration, changes_of, client_of
from tests.factories import make_group, make_user
from wms.accounts import services
from wms.accounts.domain import MAX_OPEN_INVITATIONS, TokenScope
from wms.accounts.models import ApiToken, Invitation, Membership, SecurityEvent, User

pytestmark = pytest.mark.django_db

MEMBERS = "/api/v1/groups/lhcb_user/members/"
PROD = "/api/v1/groups/lhcb_prod/members/"
QUARTER = timedelta(minutes=15)


def groups_of(user: User) -> list[str]:
    return sorted(user.memberships.values_list("group__name", flat=True))


def invited() -> list[tuple[str, str]]:
    return sorted(Invitation.objects.values_list("username", "group__name"))


# ---- who is listed, added, invited and removed -----------------------------------------------------------------------


def test_members_and_open_invitations_are_listed(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    alice = make_user(username="alice", suspended=True)
    account = SocialAccount.objects.create(user=alice, provider="https://login.example.org", uid="alice")
    confirmed = timezone.now()
    Membership.objects.create(user=alice, group=own.group, by_claim_of=account, confirmed_at=confirmed)
    services.invite(own.group, "nora", by=administration.mallory, now=timezone.now())
    services.invite(own.group, "late", by=administration.mallory, now=timezone.now() - timedelta(days=31))
    listed = manager.get(MEMBERS).json()
    assert [{**each, "confirmed_at": bool(each["confirmed_at"])} for each in listed["results"]] == [
        {"username": "lhcb_member", "given_by": "manager", "confirmed_at": False, "suspended": False},
        {"username": "alice", "given_by": "claim", "confirmed_at": True, "suspended": True},
    ]
    assert [each["username"] for each in listed["invitations"]] == ["nora"]
    page = manager.get(MEMBERS, {"page_size": 1}).json()
    assert manager.get(page["next"]).json()["results"] == listed["results"][1:]


def test_a_member_of_the_vo_is_added_and_removed(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    make_group(name="lhcb_prod", vo=own.vo)
    for _ in range(2):
        answer = manager.put(f"{PROD}lhcb_member/", {})
        assert (answer.status_code, answer.json()) == (200, {"username": "lhcb_member", "status": "member"})
    assert groups_of(own.member) == ["lhcb_prod", "lhcb_user"]
    assert manager.delete(f"{PROD}lhcb_member/").status_code == 204
    refused = manager.delete(f"{PROD}lhcb_member/")
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert groups_of(own.member) == ["lhcb_user"]
    assert changes_of("rights.changed") == [
        ("mallory", "group lhcb_prod", {"memberships": ["+lhcb_member in lhcb_prod"]}),
        ("mallory", "group lhcb_prod", {"memberships": ["-lhcb_member in lhcb_prod"]}),
    ]


def test_names_outside_of_the_vo_are_invited_and_get_the_same_answer(administration: Administration) -> None:
    manager = administration.manager
    for round_of_two in ({"dry_run": True}, {}, {}):
        answers = [manager.put(f"{MEMBERS}{name}/", round_of_two) for name in ("atlas_member", "missing_user")]
        assert [answer.status_code for answer in answers] == [200, 200]
        bodies = [re.sub(rb"atlas_member|missing_user", b"NAME", answer.content) for answer in answers]
        assert bodies[0] == bodies[1] == b'{"username":"NAME","status":"invited"}'
        assert [*answers[0].headers] == [*answers[1].headers]
        assert invited() == ([] if round_of_two else [("atlas_member", "lhcb_user"), ("missing_user", "lhcb_user")])
    assert groups_of(administration.other.member) == ["atlas_user"]
    services.decline(
        Invitation.objects.get(username="atlas_member").pk, by=administration.other.member, now=timezone.now()
    )
    listed = [each["username"] for each in manager.get(MEMBERS).json()["invitations"]]
    assert listed == ["atlas_member", "missing_user"]
    for name in ("atlas_member", "missing_user"):
        assert [manager.delete(f"{MEMBERS}{name}/").status_code for _ in range(2)] == [204, 404]
    kinds = [*SecurityEvent.objects.filter(kind__startswith="invitation.").values_list("kind", "row_id", "actor_name")]
    group = str(administration.own.group.pk)
    assert sorted(kinds) == [
        ("invitation.declined", "", "atlas_member"),
        *[("invitation.sent", group, "mallory")] * 2,
        *[("invitation.withdrawn", group, "mallory")] * 2,
    ]


def test_an_expired_invitation_is_sent_again(administration: Administration) -> None:
    now = timezone.now()
    services.invite(administration.own.group, "nora", by=administration.mallory, now=now - timedelta(days=31))
    assert administration.manager.put(f"{MEMBERS}nora/", {}).json()["status"] == "invited"
    assert Invitation.objects.get().expires_at > now


def test_what_a_manager_gives_beside_a_claim_lasts(administration: Administration) -> None:
    member = administration.own.member
    account = SocialAccount.objects.create(user=member, provider="https://login.example.org", uid="member")
    member.memberships.update(by_claim_of=account, confirmed_at=timezone.now())
    assert administration.manager.put(f"{MEMBERS}lhcb_member/", {}).json()["status"] == "member"
    assert member.memberships.get().confirmed_at is None
    assert changes_of("rights.changed")[0][2] == {"memberships": ["~lhcb_member in lhcb_user"]}


def test_an_operator_adds_every_user(administration: Administration) -> None:
    assert administration.operator.put(f"{MEMBERS}atlas_member/", {}).json()["status"] == "member"
    assert groups_of(administration.other.member) == ["atlas_user", "lhcb_user"]
    assert administration.operator.put(f"{MEMBERS}nobody_yet/", {}).json()["status"] == "invited"


def test_a_manager_of_two_vos_moves_no_member_between_them(administration: Administration) -> None:
    administration.other.vo.managers.add(administration.mallory)
    assert administration.manager.put(f"{MEMBERS}atlas_member/", {}).json()["status"] == "invited"
    assert groups_of(administration.other.member) == ["atlas_user"]


def test_a_dry_run_changes_no_member(administration: Administration) -> None:
    make_group(name="lhcb_prod", vo=administration.own.vo)
    assert administration.manager.put(f"{PROD}lhcb_member/", {"dry_run": True}).json()["status"] == "member"
    assert groups_of(administration.own.member) == ["lhcb_user"]
    assert changes_of("rights.changed") == []


@pytest.mark.parametrize("name", ["a name", "x" * 151, "%1B[31mred", "a,b"])
def test_what_cannot_be_a_user_name_is_refused(administration: Administration, name: str) -> None:
    answer = administration.manager.put(f"{MEMBERS}{name}/", {})
    assert (answer.status_code, answer.json()["code"], [*answer.json()["errors"]]) == (
        400,
        "invalid_input",
        ["username"],
    )
    assert invited() == []


def test_a_group_has_a_bounded_number_of_open_invitations(administration: Administration) -> None:
    now, group = timezone.now(), administration.own.group
    times = {"created_at": now, "expires_at": now + timedelta(days=1)}
    names = [f"invited{number}" for number in range(MAX_OPEN_INVITATIONS)]
    Invitation.objects.bulk_create([Invitation(group=group, username=name, **times) for name in names])
    answer = administration.manager.put(f"{MEMBERS}nora/", {})
    assert (answer.status_code, answer.json()["code"]) == (409, "too_many_invitations")
    assert administration.manager.put(f"{MEMBERS}{names[0]}/", {}).json()["status"] == "invited"


# ---- who may -----------------------------------------------------------------------------------------------------


def refused(client: Any) -> list[tuple[int, str]]:
    """Return status and code of each change, of a member and of a suspension."""
    person = "/api/v1/users/lhcb_member/suspension/"
    answers = [
        client.put(f"{MEMBERS}nora/", {}),
        client.delete(f"{MEMBERS}lhcb_member/"),
        client.put(person, {}),
        client.delete(person),
    ]
    assert User.objects.get(username="lhcb_member").is_active
    assert (groups_of(User.objects.get(username="lhcb_member")), invited()) == (["lhcb_user"], [])
    return sorted({(answer.status_code, answer.json()["code"]) for answer in answers})


def test_neither_others_nor_narrower_tokens_change_members(administration: Administration) -> None:
    own, other = administration.own, administration.other
    stranger = client_of(make_user(manages=[other.vo]))
    colleague = client_of(make_user(groups=[own.group]))
    assert refused(stranger) == [(404, "not_found")]
    assert stranger.get(MEMBERS).status_code == 404
    assert refused(colleague) == [(403, "forbidden")]
    assert colleague.get(MEMBERS).status_code == 403
    member_and_manager_elsewhere = client_of(make_user(groups=[own.group], manages=[other.vo]))
    assert member_and_manager_elsewhere.get(MEMBERS).status_code == 403
    narrower = client_of(administration.mallory, scope=TokenScope.MANAGE)
    assert refused(narrower) == [(403, "insufficient_scope")]
    assert narrower.get(MEMBERS).status_code == 200
    assert refused(APIClient()) == [(401, "not_authenticated")]


def test_a_stolen_token_of_an_older_log_in_changes_no_members(administration: Administration) -> None:
    old = administration.manager
    ApiToken.objects.filter(user=administration.mallory).update(created_at=timezone.now() - QUARTER)
    assert refused(old) == [(403, "fresh_log_in_needed")]
    sentence = old.put(f"{MEMBERS}nora/", {}).json()["detail"]
    assert sentence == (
        "This change needs a log-in of the last 15 min; log in again (`wms login --scope administer`), and repeat it."
    )
    assert old.get(MEMBERS).status_code == 200
    assert old.put("/api/v1/groups/lhcb_user/priority/", {"priority": 5, "reason": "more"}).status_code == 200
    fresh = client_of(administration.mallory)
    assert fresh.put(f"{MEMBERS}nora/", {}).status_code == 200
    assert fresh.put("/api/v1/users/lhcb_member/suspension/", {}).status_code == 200


def test_a_stolen_session_of_an_older_log_in_changes_no_members_and_makes_no_token_for_it(
    administration: Administration,
) -> None:
    user = administration.mallory
    user.set_password("secret")
    user.save()
    browser, new_token = Client(), {"name": "laptop", "scope": "administer", "days": "1"}
    log_in = {"username": "mallory", "password": "secret"}
    assert browser.post("/accounts/login/", log_in).status_code == 302
    put: dict[str, Any] = {"data": {}, "content_type": "application/json"}
    assert browser.put(f"{MEMBERS}nora/", **put).json()["status"] == "invited"
    assert ApiToken.objects.filter(user=user, scope="administer").count() == 0
    browser.post("/accounts/tokens/", new_token)
    assert ApiToken.objects.filter(user=user, scope="administer").count() == 1

    session = browser.session
    records = session["account_authentication_methods"]
    session["account_authentication_methods"] = [
        {**each, "at": each["at"] - QUARTER.total_seconds()} for each in records
    ]
    session.save()
    assert browser.put(f"{MEMBERS}nora/", **put).json()["code"] == "fresh_log_in_needed"
    assert "needs a log-in of the last 15 min" in browser.post("/accounts/tokens/", new_token).content.decode()
    assert ApiToken.objects.filter(user=user, scope="administer").count() == 1
    browser.post("/accounts/tokens/", {**new_token, "scope": "manage"})
    assert ApiToken.objects.filter(user=user, scope="manage").count() == 1
    assert browser.post("/accounts/again/", {"password": "secret"}).status_code == 302
    assert browser.put(f"{MEMBERS}nora/", **put).status_code == 200
