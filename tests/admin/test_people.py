"""Rights of managers of a VO on groups and users; forged requests are refused."""

import pytest
from django.test import Client
from django.urls import reverse

from taskqueues.models import ChangedGroup
from tests.admin.conftest import (
    NO_DNS,
    NO_INVITATIONS,
    NO_MEMBERSHIPS,
    RowsOfVO,
    act,
    add,
    change,
    changelist,
    client_of,
    errors_of,
)
from tests.factories import NOW, make_group, make_user
from wms.accounts.models import Group, Membership, SecurityEvent, User

pytestmark = pytest.mark.django_db

# ---- groups and members ----------------------------------------------------------------------------------------------


def test_a_manager_sets_the_share_of_a_group_and_its_priorities_are_computed_again(
    manager: Client, mine: RowsOfVO
) -> None:
    response = manager.post(
        change(mine.group),
        {"priority": "2500", "reason": "More data.", "properties": ["JOB_SHARING"], **NO_MEMBERSHIPS},
    )
    assert response.status_code == 302
    mine.group.refresh_from_db()
    assert (mine.group.priority, mine.group.properties) == (2500.0, ["JOB_SHARING"])
    assert ChangedGroup.objects.filter(group=mine.group).exists()


def test_a_manager_adds_a_group_to_the_own_vo(manager: Client, mine: RowsOfVO) -> None:
    response = manager.post(add(Group), {"name": "lhcb_prod", "vo": mine.vo.pk, "priority": "1", **NO_MEMBERSHIPS})
    assert response.status_code == 302
    assert Group.objects.get(name="lhcb_prod").vo == mine.vo


def test_a_manager_adds_no_group_to_another_vo(manager: Client, theirs: RowsOfVO) -> None:
    groups = Group.objects.count()
    response = manager.post(add(Group), {"name": "mole", "vo": theirs.vo.pk, "priority": "1", **NO_MEMBERSHIPS})
    assert "vo" in errors_of(response)
    assert Group.objects.count() == groups


def test_a_group_does_not_move_to_another_vo_nor_change_its_name(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    form = {"name": "renamed", "vo": theirs.vo.pk, "priority": "7", "reason": "Less data.", **NO_MEMBERSHIPS}
    assert operator.post(change(mine.group), form).status_code == 302
    mine.group.refresh_from_db()
    assert (mine.group.name, mine.group.vo, mine.group.priority) == ("lhcb_user", mine.vo, 7.0)


@pytest.mark.parametrize("priority", ["-1", "nan", "inf", "1e13", ""])
def test_an_invalid_share_is_refused_beside_its_field(priority: str, manager: Client, mine: RowsOfVO) -> None:
    errors = errors_of(manager.post(change(mine.group), {"priority": priority, **NO_MEMBERSHIPS}))
    assert errors
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000.0


def member_rows(*names: str) -> dict[str, str]:
    rows = {f"memberships-{number}-user": name for number, name in enumerate(names)}
    return {**NO_INVITATIONS, "memberships-TOTAL_FORMS": str(len(names)), "memberships-INITIAL_FORMS": "0", **rows}


def test_a_manager_puts_a_member_of_the_vo_into_a_further_group_by_name(manager: Client, mine: RowsOfVO) -> None:
    further = make_group(name="lhcb_prod", vo=mine.vo)
    response = manager.post(change(further), {"priority": str(further.priority), **member_rows("lhcb_member")})
    assert response.status_code == 302
    assert Membership.objects.filter(user=mine.member, group=further).exists()


def test_an_operator_puts_a_user_into_a_group_by_name(operator: Client, mine: RowsOfVO) -> None:
    newcomer = make_user(username="nora")
    assert operator.post(change(mine.group), {"priority": "1000", **member_rows("nora")}).status_code == 302
    assert Membership.objects.filter(user=newcomer, group=mine.group).exists()


def test_an_unknown_user_name_is_refused(operator: Client, mine: RowsOfVO) -> None:
    response = operator.post(change(mine.group), {"priority": "1000", **member_rows("nobody")})
    assert response.status_code == 200
    assert "There is no user of exactly this name" in response.content.decode()
    assert mine.group.memberships.count() == 1


def rows_without(membership: Membership, *, of: Group) -> dict[str, object]:
    """Return the form data of a group in which this membership is selected for deletion."""
    return {
        **NO_INVITATIONS,
        "priority": str(of.priority),
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-group": of.pk,
        "memberships-0-DELETE": "on",
    }


def test_a_manager_removes_a_member(manager: Client, mine: RowsOfVO) -> None:
    membership = mine.group.memberships.get()
    assert manager.post(change(mine.group), rows_without(membership, of=mine.group)).status_code == 302
    assert not mine.group.memberships.exists()


def test_a_membership_of_another_vo_is_not_deleted_through_an_own_group(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    membership = theirs.group.memberships.get()
    manager.post(change(mine.group), rows_without(membership, of=mine.group))
    assert Membership.objects.filter(pk=membership.pk, group=theirs.group).exists()


# ---- users -----------------------------------------------------------------------------------------------------------


def of_person(**others: str) -> dict[str, str]:
    return {
        "first_name": "Maria",
        "last_name": "",
        "email": "",
        "is_active": "on",
        **NO_MEMBERSHIPS,
        **NO_DNS,
        **others,
    }


def test_a_form_suspends_nobody_as_it_says_no_numbers(manager: Client, mine: RowsOfVO) -> None:
    form = of_person()
    del form["is_active"]
    assert manager.post(change(mine.member), form).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.is_active
    assert mine.member.first_name == "Maria"
    mine.job.refresh_from_db()
    assert mine.job.status != "Killed"
    assert "Suspend …" in manager.get(change(mine.member)).content.decode()


def test_a_manager_suspends_a_member_of_the_own_vo_who_is_told_the_numbers_before(
    manager: Client, mine: RowsOfVO
) -> None:
    asked = act(manager, mine.member, "suspend").content.decode()
    assert "Payloads that are killed at once: 1; jobs that wait, and are not matched: 1." in asked
    assert User.objects.get(pk=mine.member.pk).is_active
    assert act(manager, mine.member, "suspend", confirmed="1", reason="stolen account").status_code == 302
    assert not User.objects.get(pk=mine.member.pk).is_active
    mine.job.refresh_from_db()
    assert (mine.job.status, mine.job.minor_status) == ("Killed", "Owner suspended")
    page = manager.get(changelist(User)).content.decode()
    assert "1 user: suspended; payloads killed: 1; jobs that wait, and are not matched: 1." in page


def acted_on(client: Client, action: str, *people: User, **others: str) -> str:
    """Return the page after an action on people."""
    form = {"action": action, "_selected_action": [str(person.pk) for person in people], **others}
    return client.post(changelist(User), form, follow=True).content.decode()


def test_people_are_suspended_and_restored_by_actions_with_a_reason(manager: Client, mine: RowsOfVO) -> None:
    assert "lhcb_member" in acted_on(manager, "suspend", mine.member)
    assert User.objects.get(pk=mine.member.pk).is_active
    said = acted_on(manager, "suspend", mine.member, confirmed="1", reason="stolen account")
    assert "1 user: suspended; payloads killed: 1; jobs that wait, and are not matched: 1." in said
    assert not User.objects.get(pk=mine.member.pk).is_active
    said = acted_on(manager, "restore", mine.member, confirmed="1", reason="new password")
    assert "1 user: the suspension has ended; waiting jobs, which can be matched again: 1." in said
    assert User.objects.get(pk=mine.member.pk).is_active
    events = SecurityEvent.objects.filter(kind__in=["user.suspended", "user.restored"]).order_by("pk")
    assert [event.facts["changes"]["reason"] for event in events] == ["stolen account", "new password"]


def test_an_action_suspends_nobody_if_one_may_not_be_changed(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    Membership.objects.create(user=mine.member, group=theirs.group)
    further = make_user(groups=[mine.group])
    said = acted_on(manager, "suspend", mine.member, further, confirmed="1")
    assert "all of whom you may change" in said
    assert not User.objects.filter(is_active=False).exists()


def test_no_forged_form_gives_power(manager: Client, mine: RowsOfVO) -> None:
    forged = of_person(
        is_staff="on", is_superuser="on", operator="on", password="x", username="root", managed_vos=str(mine.vo.pk)
    )
    before = User.objects.get(pk=mine.member.pk)
    assert manager.post(change(mine.member), forged).status_code == 302
    after = User.objects.get(pk=mine.member.pk)
    assert not any([after.is_staff, after.is_superuser, after.operator, after.managed_vos.exists()])
    assert (after.password, after.username) == (before.password, before.username)


def test_managers_cannot_change_certificates(manager: Client, mine: RowsOfVO) -> None:
    forged = of_person() | {"dns-TOTAL_FORMS": "1", "dns-0-dn": "/CN=bob", "dns-0-user": str(mine.member.pk)}
    manager.post(change(mine.member), forged)
    assert list(mine.member.dns.values_list("dn", flat=True)) == ["/CN=lhcb"]


def test_a_manager_sets_no_password(manager: Client, mine: RowsOfVO) -> None:
    address = reverse("admin:auth_user_password_change", args=[mine.member.pk])
    assert manager.get(address).status_code == 403
    form = {"password1": "a long new passphrase", "password2": "a long new passphrase", "usable_password": "true"}
    assert manager.post(address, form).status_code == 403
    mine.member.refresh_from_db()
    assert not mine.member.has_usable_password()


@pytest.mark.parametrize("power", ["of another VO too", "staff", "operator", "superuser", "manager"])
def test_members_of_other_vos_or_with_powers_are_read_only(
    power: str, manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    user = make_user(
        groups=[mine.group, *([theirs.group] if power == "of another VO too" else [])],
        staff=power == "staff",
        operator=power == "operator",
        superuser=power == "superuser",
        manages=[theirs.vo] if power == "manager" else [],
    )
    assert manager.get(change(user)).status_code == 200
    assert manager.post(change(user), of_person()).status_code == 403
    user.refresh_from_db()
    assert user.first_name == ""


def test_memberships_of_other_vos_are_not_shown(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    both = make_user(groups=[mine.group, theirs.group])
    page = manager.get(change(both)).content.decode()
    assert "lhcb_user" in page
    assert "atlas_user" not in page


def new_user(group: Group | None, **others: str) -> dict[str, str]:
    rows = {"memberships-0-group": str(group.pk)} if group else {}
    return {
        "username": "nora",
        "usable_password": "true",
        "password1": "a long new passphrase",
        "password2": "a long new passphrase",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "0",
        **rows,
        **others,
    }


def test_an_operator_adds_a_user_to_a_group(operator: Client, mine: RowsOfVO) -> None:
    forged = new_user(mine.group, is_staff="on", is_superuser="on", operator="on")
    assert "/accounts/password/link/" in operator.post(add(User), forged).content.decode()
    nora = User.objects.get(username="nora")
    assert [membership.group for membership in nora.memberships.all()] == [mine.group]
    assert not nora.has_usable_password()
    assert not any([nora.is_staff, nora.is_superuser, nora.operator])


def test_a_manager_adds_no_user(manager: Client, mine: RowsOfVO, theirs: RowsOfVO) -> None:
    without_rows = {**new_user(None), "memberships-TOTAL_FORMS": "0"}
    for form in (new_user(None), without_rows, new_user(mine.group), new_user(theirs.group)):
        assert manager.post(add(User), form).status_code == 403
        assert not User.objects.filter(username="nora").exists()


@pytest.mark.parametrize("who", ["operator", "manager"])
def test_a_default_group_that_the_user_is_not_in_is_refused(
    who: str, request: pytest.FixtureRequest, mine: RowsOfVO
) -> None:
    client: Client = request.getfixturevalue(who)
    other = make_group(name="lhcb_prod", vo=mine.vo)
    errors = errors_of(client.post(change(mine.member), of_person(default_group=str(other.pk), username="x")))
    assert errors["default_group"] == ["lhcb_member is not a member of lhcb_prod; save the membership first."]
    assert client.post(change(mine.member), of_person(default_group=str(mine.group.pk))).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.default_group == mine.group


def test_a_default_group_that_the_user_has_left_prevents_no_other_change(operator: Client, mine: RowsOfVO) -> None:
    left = make_group(name="lhcb_prod", vo=mine.vo)
    User.objects.filter(pk=mine.member.pk).update(default_group=left)
    assert operator.post(change(mine.member), of_person(default_group=str(left.pk))).status_code == 302


def test_an_operator_cannot_make_or_change_superusers(operator: Client, mine: RowsOfVO) -> None:
    form = of_person(username="x", is_superuser="on", operator="on")
    assert operator.post(change(mine.member), form).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.operator
    assert not mine.member.is_superuser
    root = make_user(superuser=True, staff=True)
    assert operator.post(change(root), of_person()).status_code == 403
    assert operator.get(reverse("admin:auth_user_password_change", args=[root.pk])).status_code == 403


def test_a_superuser_makes_superusers(superuser: Client, mine: RowsOfVO) -> None:
    assert superuser.post(change(mine.member), of_person(is_superuser="on", is_staff="on")).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.is_superuser


def test_an_operator_revokes_tokens_of_users(operator: Client, manager: Client, mine: RowsOfVO) -> None:
    assert act(manager, mine.api_token, "revoke").status_code == 403
    mine.api_token.refresh_from_db()
    assert mine.api_token.revoked_at is None
    act(operator, mine.api_token, "revoke")
    mine.api_token.refresh_from_db()
    assert mine.api_token.revoked_at is not None


def test_a_manager_chooses_the_setups_but_neither_name_nor_managers(manager: Client, mine: RowsOfVO) -> None:
    stranger = make_user()
    form = {"name": "cms", "setup": "Devel", "setups": "Devel, Production", "managers": [stranger.pk]}
    assert manager.post(change(mine.vo), form).status_code == 302
    mine.vo.refresh_from_db()
    assert (mine.vo.name, mine.vo.setup, mine.vo.setups) == ("lhcb", "Devel", ["Devel", "Production"])
    assert [user.username for user in mine.vo.managers.all()] == ["bob"]


def test_a_default_setup_outside_the_setups_is_refused(manager: Client, mine: RowsOfVO) -> None:
    assert errors_of(manager.post(change(mine.vo), {"setup": "Other", "setups": "Production"}))


def test_a_manager_chooses_how_the_vo_is_shared_and_its_priorities_are_computed_again(
    manager: Client, mine: RowsOfVO
) -> None:
    form = {"setup": "Production", "setups": "Production", "history_fair_share": "on", "any_segment_fraction": "0.1"}
    assert manager.post(change(mine.vo), form).status_code == 302
    mine.vo.refresh_from_db()
    assert (mine.vo.history_fair_share, mine.vo.any_segment_fraction) == (True, 0.1)
    assert ChangedGroup.objects.filter(group=mine.group).exists()
    assert manager.post(change(mine.vo), {**form, "any_segment_fraction": ""}).status_code == 302
    mine.vo.refresh_from_db()
    assert mine.vo.any_segment_fraction == 0.0


@pytest.mark.parametrize("fraction", ["-0.1", "1.1", "nan", "half"])
def test_an_invalid_fraction_is_refused_beside_its_field(fraction: str, manager: Client, mine: RowsOfVO) -> None:
    form = {"setup": "Production", "setups": "Production", "any_segment_fraction": fraction}
    assert "any_segment_fraction" in errors_of(manager.post(change(mine.vo), form))


def test_a_manager_pauses_the_vo_with_a_reason(manager: Client, mine: RowsOfVO) -> None:
    form = {"setup": "Production", "setups": "Production", "any_segment_fraction": "0.0"}
    pause = {"paused_until_0": "2099-12-01", "paused_until_1": "18:00"}
    assert "pause_reason" in errors_of(manager.post(change(mine.vo), form | pause))
    assert manager.post(change(mine.vo), form | pause | {"pause_reason": "storage is full"}).status_code == 302
    mine.vo.refresh_from_db()
    said = f"matching for {mine.vo} is paused until 2099-12-01 18:00 UTC: storage is full"
    assert mine.vo.why_paused(NOW) == said


def test_a_former_manager_sees_nothing(mine: RowsOfVO, manager: Client) -> None:
    mine.vo.managers.clear()
    assert manager.get(changelist(Group)).status_code == 403
    assert manager.post(change(mine.group), {"priority": "1", "reason": "Mine.", **NO_MEMBERSHIPS}).status_code in {
        302,
        403,
    }
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000.0


def test_a_manager_of_two_vos_sees_both(mine: RowsOfVO, theirs: RowsOfVO) -> None:
    both = client_of(make_user(staff=True, manages=[mine.vo, theirs.vo]))
    make_group(name="cms_user")
    seen = both.get(changelist(Group)).context["cl"].queryset.values_list("name", flat=True)
    assert sorted(seen) == ["atlas_user", "lhcb_user"]


# ---- lists -----------------------------------------------------------------------------------------------------------


def people_in(client: Client, **chosen: int) -> dict[str, str]:
    """Return {user name: groups that the list shows}."""
    listed = client.get(changelist(User), chosen).context["cl"]
    return {user.username: listed.model_admin.group_names(user) for user in listed.result_list}


def test_the_list_of_users_shows_their_groups_and_is_narrowed_by_vo_and_group(
    operator: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    both = make_user(username="both", groups=[mine.group, theirs.group])
    assert people_in(operator)["both"] == "atlas_user, lhcb_user"
    assert people_in(operator, vo=mine.vo.pk).keys() == {mine.member.username, both.username}
    assert people_in(operator, group=theirs.group.pk).keys() == {theirs.member.username, both.username}


def test_a_manager_neither_sees_nor_finds_groups_of_other_vos(
    manager: Client, mine: RowsOfVO, theirs: RowsOfVO
) -> None:
    make_user(username="both", groups=[mine.group, theirs.group])
    everybody = people_in(manager)
    assert everybody["both"] == "lhcb_user"
    assert people_in(manager, group=theirs.group.pk) == everybody
    assert people_in(manager, group=mine.group.pk).keys() == {mine.member.username, "both"}


def test_the_list_of_groups_counts_their_members(operator: Client, mine: RowsOfVO) -> None:
    make_group(name="empty", vo=mine.vo)
    listed = operator.get(changelist(Group), {"vo__id__exact": mine.vo.pk}).context["cl"]
    assert {group.name: listed.model_admin.members(group) for group in listed.result_list} == {
        "lhcb_user": 1,
        "empty": 0,
    }
