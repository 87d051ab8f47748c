"""A manager who searches for names, looks at users of other VOs, or adds foreign users to the VO."""

import re
from copy import deepcopy
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tests.admin.conftest import (
    NO_DNS,
    NO_INVITATIONS,
    NO_MEMBERSHIPS,
    RowsOfVO,
    add,
    change,
    changelist,
    client_of,
    make_rows_of_vo,
)
from tests.factories import make_group, make_user
from wms.accounts import services
from wms.accounts.models import Invitation, Membership, SecurityEvent, User

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def rows_of_lhcb(rows_of_module: None) -> RowsOfVO:
    return make_rows_of_vo("lhcb")


@pytest.fixture
def mine(rows_of_lhcb: RowsOfVO, db: None) -> RowsOfVO:
    return deepcopy(rows_of_lhcb)


@pytest.fixture
def theirs() -> RowsOfVO:
    return make_rows_of_vo("atlas")


@pytest.fixture
def bob(mine: RowsOfVO) -> User:
    """Return Bob, who manages lhcb."""
    return make_user(username="bob", staff=True, manages=[mine.vo])


@pytest.fixture
def manager(bob: User) -> Client:
    return client_of(bob)


def rows(table: str, column: str, *values: str) -> dict[str, str]:
    of_rows = {f"{table}-{number}-{column}": value for number, value in enumerate(values)}
    return {f"{table}-TOTAL_FORMS": str(len(values)), f"{table}-INITIAL_FORMS": "0", **of_rows}


def invite(client: Client, sample: RowsOfVO, *names: str) -> Any:
    form = {"priority": "1000", **NO_MEMBERSHIPS, **rows("invitations", "username", *names)}
    return client.post(change(sample.group), form)


def without_words(page: str, *words: str) -> str:
    """Return a page without its variable parts: tokens of forms, and the words that were typed."""
    page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"|nonce="[^"]*"', "", page)
    return re.sub("|".join(words), "…", page)


def is_in(user: User, sample: RowsOfVO) -> bool:
    return Membership.objects.filter(user=user, group__vo=sample.vo).exists()


# ---- names -----------------------------------------------------------------------------------------------------------


def test_an_invitation_does_not_disclose_whether_the_name_exists(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    answers = []
    for name in ("atlas_member", "nobody_here1"):
        with CaptureQueriesContext(connection) as asked:
            sent = invite(manager, mine, name)
        page = manager.get(change(mine.group)).content.decode()
        assert name in page
        statements = [re.sub(r"'[^']*'|\d+", "?", query["sql"]) for query in asked]
        # Whether there is such a user is not even asked, so that no time tells it.
        assert not any(re.search(r'FROM "accounts_user" WHERE.*"username" =', each) for each in statements)
        answers.append((sent.status_code, sent["Location"], len(statements)))
        Invitation.objects.all().delete()
    assert answers[0] == answers[1]


def test_repeated_and_declined_invitations_do_not_disclose_names(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    invite(manager, mine, "atlas_member", "nobody_here1")
    services.decline(Invitation.objects.get(username="atlas_member").pk, by=theirs.member, now=timezone.now())
    pages = [
        without_words(invite(manager, mine, name).content.decode(), name) for name in ("atlas_member", "nobody_here1")
    ]
    assert pages[0] == pages[1]
    page = manager.get(change(mine.group)).content.decode()
    assert "atlas_member" in page
    assert "nobody_here1" in page
    assert "declined" not in page.lower()


def test_the_member_table_does_not_disclose_foreign_users(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    pages = []
    for name in ("atlas_member", "nobody_here1"):
        form = {"priority": "1000", **NO_INVITATIONS, **rows("memberships", "user", name)}
        answer = manager.post(change(mine.group), form)
        assert answer.status_code == 200
        pages.append(without_words(answer.content.decode(), name))
    assert pages[0] == pages[1]
    assert not is_in(theirs.member, mine)


def test_a_manager_adds_no_account(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    users = User.objects.count()
    for name in ("atlas_member", "nobody_here1"):
        form = {
            "username": name,
            "password1": "x",
            "password2": "x",
            **rows("memberships", "group", str(mine.group.pk)),
        }
        assert manager.post(add(User), form).status_code == 403
    assert manager.get(add(User)).status_code == 403
    assert User.objects.count() == users


# ---- consent ---------------------------------------------------------------------------------------------------------


def test_a_manager_cannot_add_a_foreign_user_to_the_vo(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    pk = str(theirs.member.pk)
    for form in (
        {**NO_INVITATIONS, **rows("memberships", "user", "atlas_member")},
        {**NO_INVITATIONS, **rows("memberships", "user", pk)},
        {**rows("invitations", "username", "atlas_member"), **rows("memberships", "user", pk)},
    ):
        manager.post(change(mine.group), {"priority": "1000", **form})
    groups = rows("memberships", "group", str(mine.group.pk))
    manager.post(change(theirs.member), {"first_name": "x", "is_active": "on", **NO_DNS, **groups})
    new = {"name": "lhcb_new", "vo": str(mine.vo.pk), "priority": "1000", **rows("memberships", "user", "atlas_member")}
    manager.post(add(type(mine.group)), new)
    assert not is_in(theirs.member, mine)


def test_a_manager_of_two_vos_cannot_move_members_between_them(mine: RowsOfVO, theirs: RowsOfVO) -> None:
    both = client_of(make_user(staff=True, manages=[mine.vo, theirs.vo]))
    both.post(change(mine.group), {"priority": "1000", **NO_INVITATIONS, **rows("memberships", "user", "atlas_member")})
    groups = rows("memberships", "group", str(mine.group.pk))
    both.post(change(theirs.member), {"first_name": "x", "is_active": "on", **NO_DNS, **groups})
    assert not is_in(theirs.member, mine)


def test_an_invited_user_becomes_a_member_by_accepting(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    invite(manager, mine, "atlas_member")
    assert not is_in(theirs.member, mine)
    browser = client_of(theirs.member)
    assert "Invitations" in browser.get("/jobs/").content.decode()
    page = browser.get("/accounts/groups/").content.decode()
    assert "lhcb_user" in page
    invitation = Invitation.objects.get()
    assert browser.post(f"/accounts/invitations/{invitation.pk}/accept/").status_code == 302
    assert is_in(theirs.member, mine)
    assert not Invitation.objects.exists()
    kinds = list(SecurityEvent.objects.values_list("kind", flat=True))
    assert {"invitation.sent", "invitation.accepted"} <= set(kinds)


def test_an_account_added_later_receives_its_invitation(manager: Client, mine: RowsOfVO) -> None:
    invite(manager, mine, "nora")
    nora = make_user(username="nora")
    client_of(nora).post(f"/accounts/invitations/{Invitation.objects.get().pk}/accept/")
    assert is_in(nora, mine)


def test_only_the_invited_user_answers_an_invitation(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    invite(manager, mine, "atlas_member")
    pk = Invitation.objects.get().pk
    for other in (
        client_of(make_user(username="Atlas_member")),
        manager,
        client_of(make_user(operator=True)),
        Client(),
    ):
        for answer in ("accept", "decline"):
            assert other.post(f"/accounts/invitations/{pk}/{answer}/").status_code in {302, 404}
    assert Invitation.objects.get().declined_at is None
    assert Membership.objects.filter(group=mine.group).count() == 1


@pytest.mark.parametrize(
    "over", ["expired", "declined", "withdrawn", "its sender manages no more", "its sender is suspended", "no group"]
)
def test_an_ended_invitation_cannot_be_accepted(
    over: str, manager: Client, bob: User, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    group = make_group(name="lhcb_prod", vo=mine.vo)
    services.invite(group, "atlas_member", by=bob, now=timezone.now())
    invitation = Invitation.objects.get()
    if over == "expired":
        Invitation.objects.update(expires_at=timezone.now())
    elif over == "declined":
        services.decline(invitation.pk, by=theirs.member, now=timezone.now())
    elif over == "withdrawn":
        form = {
            "priority": "1000", **NO_MEMBERSHIPS, "invitations-TOTAL_FORMS": "1", "invitations-INITIAL_FORMS": "1",
            "invitations-0-id": str(invitation.pk), "invitations-0-group": str(group.pk), "invitations-0-DELETE": "on",
        }  # fmt: skip
        assert manager.post(change(group), form).status_code == 302
        assert not Invitation.objects.exists()
    elif over == "its sender manages no more":
        mine.vo.managers.clear()
    elif over == "its sender is suspended":
        User.objects.filter(pk=bob.pk).update(is_active=False)
    else:
        group.delete()
    browser = client_of(theirs.member)
    assert "lhcb_prod" not in browser.get("/accounts/groups/").content.decode()
    assert browser.post(f"/accounts/invitations/{invitation.pk}/accept/").status_code == 404
    assert not is_in(theirs.member, mine)


def test_a_manager_withdraws_no_invitation_of_another_vo(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    services.invite(theirs.group, "nora", by=make_user(manages=[theirs.vo]), now=timezone.now())
    pk = str(Invitation.objects.get().pk)
    form = {
        "priority": "1000", **NO_MEMBERSHIPS, "invitations-TOTAL_FORMS": "1", "invitations-INITIAL_FORMS": "1",
        "invitations-0-id": pk, "invitations-0-group": str(mine.group.pk), "invitations-0-DELETE": "on",
    }  # fmt: skip
    manager.post(change(mine.group), form)
    assert Invitation.objects.filter(pk=pk).exists()


def test_expired_invitations_are_removed(bob: User, mine: RowsOfVO) -> None:
    now = timezone.now()
    services.invite(mine.group, "old", by=bob, now=now - timedelta(days=31))
    services.invite(mine.group, "new", by=bob, now=now)
    assert services.remove_expired_invitations(now=now) == 1
    assert Invitation.objects.get().username == "new"


def test_a_member_leaves_a_group_and_no_other_members_membership(mine: RowsOfVO, theirs: RowsOfVO) -> None:
    browser = client_of(mine.member)
    assert browser.post(f"/accounts/groups/{theirs.group.pk}/leave/").status_code == 404
    assert browser.post(f"/accounts/groups/{mine.group.pk}/leave/").status_code == 302
    assert not is_in(mine.member, mine)
    assert is_in(theirs.member, theirs)


def test_an_invitation_of_another_vo_takes_no_right_from_a_manager(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    """Before, the manager of atlas put the member into atlas, and the manager of lhcb could suspend it no more."""
    other = client_of(make_user(staff=True, manages=[theirs.vo]))
    form = {"priority": "1000", **NO_INVITATIONS, **rows("memberships", "user", "lhcb_member")}
    other.post(change(theirs.group), form)
    invite(other, theirs, "lhcb_member")
    suspend = {"first_name": "", "last_name": "", "email": "", **NO_DNS, **NO_MEMBERSHIPS}
    assert manager.post(change(mine.member), suspend).status_code == 302
    assert not User.objects.get(pk=mine.member.pk).is_active


def test_a_manager_ends_memberships_of_members_of_other_vos(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    both = make_user(username="both", groups=[mine.group, theirs.group], staff=True)
    membership = both.memberships.get(group=mine.group)
    form = {
        "priority": "1000", **NO_INVITATIONS, "memberships-TOTAL_FORMS": "1", "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": str(membership.pk), "memberships-0-group": str(mine.group.pk), "memberships-0-DELETE": "on",
    }  # fmt: skip
    assert manager.post(change(mine.group), form).status_code == 302
    assert [each.group for each in both.memberships.all()] == [theirs.group]


# ---- what managers see of users --------------------------------------------------------------------------------------


@pytest.fixture
def secretive(mine: RowsOfVO, theirs: RowsOfVO) -> User:
    """Return a user who is in both VOs."""
    user = make_user(
        username="both", groups=[mine.group, theirs.group], default_group=theirs.group, dns=["/CN=secret-name"]
    )
    User.objects.filter(pk=user.pk).update(last_login="2019-03-07T01:02:03Z", date_joined="2018-04-05T06:07:08Z")
    return user


@pytest.mark.parametrize("page", ["list", "change", "search", "ordered"])
def test_a_manager_sees_neither_certificates_nor_log_ins_nor_other_vos(
    page: str, manager: Client, secretive: User
) -> None:
    address = change(secretive) if page == "change" else changelist(User)
    query = {"search": {"q": "both"}, "ordered": {"o": "-5.4"}}.get(page, {})
    told = manager.get(address, query).content.decode()
    assert "both" in told
    for secret in ("secret-name", "2019-03-07", "2018-04-05", "atlas"):
        assert secret not in told


@pytest.mark.parametrize(
    "query",
    [
        {"q": "secret-name"}, {"q": "/CN=secret"}, {"dns__dn__startswith": "/CN=s"}, {"last_login__year": "2019"},
        {"date_joined__gte": "2018-01-01"}, {"default_group__name": "atlas_user"},
        {"memberships__group__name": "atlas_user"},
        {"operator__exact": "1"}, {"password__startswith": "a"},
    ],
    ids=str,
)  # fmt: skip
def test_a_manager_cannot_search_by_hidden_columns(query: dict[str, str], manager: Client, secretive: User) -> None:
    answer = manager.get(changelist(User), query)
    assert answer.status_code in {302, 400} or "both" not in answer.content.decode().partition("result_list")[2]


def test_a_manager_completes_no_name_by_a_certificate(manager: Client, secretive: User) -> None:
    query = {"app_label": "taskqueues", "model_name": "limit", "field_name": "user", "term": "secret-name"}
    assert manager.get("/admin/autocomplete/", query).json()["results"] == []


def test_managers_see_no_certificates_and_other_vos_in_the_history_of_a_user(manager: Client, secretive: User) -> None:
    operator = client_of(make_user(staff=True, operator=True))
    form = {
        "username": "both", "is_active": "on", **NO_MEMBERSHIPS,
        **rows("dns", "dn", "/CN=further"),
    }  # fmt: skip
    assert operator.post(change(secretive), form).status_code == 302
    history = change(secretive).replace("change", "history")
    assert "/CN=further" in operator.get(history).content.decode()
    seen = manager.get(history)
    assert seen.status_code == 200
    assert "further" not in seen.content.decode()
