"""What a manager of a VO can do, and what no forged request lets one do."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.test import Client
from django.urls import reverse

from matching.models import Limit
from resources.domain.words import ResourceState
from resources.models import ComputingElement, Queue, RequirementDefinition, Site, SiteToken
from taskqueues.models import ChangedGroup, SubmitPool
from tests.admin.conftest import Shared, World, client_of
from tests.factories import make_group, make_user
from wms.accounts.models import Group, Membership, User

pytestmark = pytest.mark.django_db

NO_MEMBERSHIPS = {"memberships-TOTAL_FORMS": "0", "memberships-INITIAL_FORMS": "0"}
NO_DNS = {"dns-TOTAL_FORMS": "0", "dns-INITIAL_FORMS": "0"}


def change(row: Any) -> str:
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[row.pk])


def add(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_add")


def changelist(model: Any) -> str:
    return reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")


def errors_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 200, "the form was accepted"
    errors: dict[str, list[str]] = response.context["adminform"].form.errors
    return errors


# ---- groups and members ----------------------------------------------------------------------------------------------


def test_a_manager_sets_the_share_of_a_group_and_its_priorities_are_computed_again(
    manager: Client, mine: World
) -> None:
    response = manager.post(change(mine.group), {"priority": "2500", "properties": ["JOB_SHARING"], **NO_MEMBERSHIPS})
    assert response.status_code == 302
    mine.group.refresh_from_db()
    assert (mine.group.priority, mine.group.properties) == (2500.0, ["JOB_SHARING"])
    assert ChangedGroup.objects.filter(group=mine.group).exists()


def test_a_manager_adds_a_group_to_the_own_vo(manager: Client, mine: World) -> None:
    response = manager.post(add(Group), {"name": "lhcb_prod", "vo": mine.vo.pk, "priority": "1", **NO_MEMBERSHIPS})
    assert response.status_code == 302
    assert Group.objects.get(name="lhcb_prod").vo == mine.vo


def test_a_manager_adds_no_group_to_another_vo(manager: Client, theirs: World) -> None:
    groups = Group.objects.count()
    response = manager.post(add(Group), {"name": "mole", "vo": theirs.vo.pk, "priority": "1", **NO_MEMBERSHIPS})
    assert "vo" in errors_of(response)
    assert Group.objects.count() == groups


def test_a_group_does_not_move_to_another_vo_nor_change_its_name(operator: Client, mine: World, theirs: World) -> None:
    form = {"name": "renamed", "vo": theirs.vo.pk, "priority": "7", **NO_MEMBERSHIPS}
    assert operator.post(change(mine.group), form).status_code == 302
    mine.group.refresh_from_db()
    assert (mine.group.name, mine.group.vo, mine.group.priority) == ("lhcb_user", mine.vo, 7.0)


@pytest.mark.parametrize("priority", ["-1", "nan", "inf", "1e13", ""])
def test_a_share_that_is_none_is_refused_beside_its_field(priority: str, manager: Client, mine: World) -> None:
    errors = errors_of(manager.post(change(mine.group), {"priority": priority, **NO_MEMBERSHIPS}))
    assert errors
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000.0


def member_rows(*names: str) -> dict[str, str]:
    rows = {f"memberships-{number}-user": name for number, name in enumerate(names)}
    return {"memberships-TOTAL_FORMS": str(len(names)), "memberships-INITIAL_FORMS": "0", **rows}


def test_a_manager_puts_a_user_into_a_group_by_name(manager: Client, mine: World) -> None:
    newcomer = make_user(username="nora")
    response = manager.post(change(mine.group), {"priority": "1", **member_rows("nora")})
    assert response.status_code == 302
    assert Membership.objects.filter(user=newcomer, group=mine.group).exists()


def test_a_name_that_nobody_has_is_refused(manager: Client, mine: World) -> None:
    response = manager.post(change(mine.group), {"priority": "1", **member_rows("nobody")})
    assert response.status_code == 200
    assert "There is no user of exactly this name" in response.content.decode()
    assert mine.group.memberships.count() == 1


def test_a_manager_takes_a_member_out(manager: Client, mine: World) -> None:
    membership = mine.group.memberships.get()
    form = {
        "priority": "1",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-group": mine.group.pk,
        "memberships-0-DELETE": "on",
    }
    assert manager.post(change(mine.group), form).status_code == 302
    assert not mine.group.memberships.exists()


def test_a_membership_of_another_vo_is_not_deleted_through_an_own_group(
    manager: Client, mine: World, theirs: World
) -> None:
    membership = theirs.group.memberships.get()
    form = {
        "priority": "1",
        "memberships-TOTAL_FORMS": "1",
        "memberships-INITIAL_FORMS": "1",
        "memberships-0-id": membership.pk,
        "memberships-0-group": mine.group.pk,
        "memberships-0-DELETE": "on",
    }
    manager.post(change(mine.group), form)
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


def test_a_manager_suspends_a_member_who_is_in_no_other_vo(manager: Client, mine: World) -> None:
    form = of_person()
    del form["is_active"]
    assert manager.post(change(mine.member), form).status_code == 302
    mine.member.refresh_from_db()
    assert not mine.member.is_active
    assert mine.member.first_name == "Maria"


def test_no_forged_form_gives_power(manager: Client, mine: World) -> None:
    forged = of_person(
        is_staff="on", is_superuser="on", operator="on", password="x", username="root", managed_vos=str(mine.vo.pk)
    )
    before = User.objects.get(pk=mine.member.pk)
    assert manager.post(change(mine.member), forged).status_code == 302
    after = User.objects.get(pk=mine.member.pk)
    assert not any([after.is_staff, after.is_superuser, after.operator, after.managed_vos.exists()])
    assert (after.password, after.username) == (before.password, before.username)


def test_certificates_are_not_given_away_by_managers(manager: Client, mine: World) -> None:
    forged = of_person() | {"dns-TOTAL_FORMS": "1", "dns-0-dn": "/CN=bob", "dns-0-user": str(mine.member.pk)}
    manager.post(change(mine.member), forged)
    assert list(mine.member.dns.values_list("dn", flat=True)) == ["/CN=lhcb"]


def test_a_manager_sets_no_password(manager: Client, mine: World) -> None:
    address = reverse("admin:auth_user_password_change", args=[mine.member.pk])
    assert manager.get(address).status_code == 403
    form = {"password1": "a long new passphrase", "password2": "a long new passphrase", "usable_password": "true"}
    assert manager.post(address, form).status_code == 403
    mine.member.refresh_from_db()
    assert not mine.member.has_usable_password()


@pytest.mark.parametrize("power", ["of another VO too", "staff", "operator", "superuser", "manager"])
def test_members_with_a_life_elsewhere_or_with_power_are_only_looked_at(
    power: str, manager: Client, mine: World, theirs: World
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


def test_memberships_of_other_vos_are_not_shown(manager: Client, mine: World, theirs: World) -> None:
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


def test_a_manager_adds_a_user_to_the_own_vo(manager: Client, mine: World) -> None:
    forged = new_user(mine.group, is_staff="on", is_superuser="on", operator="on")
    assert manager.post(add(User), forged).status_code == 302
    nora = User.objects.get(username="nora")
    assert [membership.group for membership in nora.memberships.all()] == [mine.group]
    assert nora.check_password("a long new passphrase")
    assert not any([nora.is_staff, nora.is_superuser, nora.operator])


def test_a_manager_adds_no_user_without_a_group_or_to_another_vo(manager: Client, theirs: World) -> None:
    for form in (new_user(None), new_user(theirs.group)):
        assert manager.post(add(User), form).status_code == 200
        assert not User.objects.filter(username="nora").exists()


def test_an_operator_makes_nobody_a_superuser_and_changes_none(operator: Client, mine: World) -> None:
    form = of_person(username="x", is_superuser="on", operator="on")
    assert operator.post(change(mine.member), form).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.operator
    assert not mine.member.is_superuser
    root = make_user(superuser=True, staff=True)
    assert operator.post(change(root), of_person()).status_code == 403
    assert operator.get(reverse("admin:auth_user_password_change", args=[root.pk])).status_code == 403


def test_a_superuser_makes_superusers(superuser: Client, mine: World) -> None:
    assert superuser.post(change(mine.member), of_person(is_superuser="on", is_staff="on")).status_code == 302
    mine.member.refresh_from_db()
    assert mine.member.is_superuser


# ---- sites, CEs, queues ----------------------------------------------------------------------------------------------


def of_queue(**others: Any) -> dict[str, Any]:
    return {
        "cpu_time_s": "1000",
        "processors": "1",
        "memory_mb": "2000",
        "platforms": "b, a, b",
        "job_types": "",
        "tags": "",
        "required_tags": "",
        "max_waiting_pilots": "1",
        "max_pilots": "2",
        "parameters": "{}",
        "vo_parameters": "{}",
        **others,
    }


def of_site(**others: Any) -> dict[str, Any]:
    return {
        "parameters": "{}",
        "vo_parameters": "{}",
        "throttle_policy": "",
        "throttle_when_expired": "count",
        "throttle_advertisement_s": "300",
        **others,
    }


def test_a_manager_changes_a_queue_and_the_submit_pools_follow(manager: Client, mine: World) -> None:
    assert not mine.submit_pool.queues.exists()
    response = manager.post(change(mine.queue), of_queue(parameters='{"Memory": 8000}'))
    assert response.status_code == 302
    mine.queue.refresh_from_db()
    assert (mine.queue.parameters, mine.queue.platforms) == ({"Memory": 8000}, ["a", "b"])
    assert list(mine.submit_pool.queues.all()) == [mine.queue]


def test_deleting_a_definition_refreshes_the_submit_pools(operator: Client, mine: World) -> None:
    RequirementDefinition.objects.create(name="Memory", kind="exact")
    Queue.objects.filter(pk=mine.queue.pk).update(parameters={"Memory": 8000})
    action = {"action": "delete_selected", "post": "yes"}
    selected = {"_selected_action": [str(RequirementDefinition.objects.get(name="Memory").pk)]}
    assert operator.post(changelist(RequirementDefinition), {**action, **selected}).status_code == 302
    assert list(SubmitPool.objects.get(pk=mine.submit_pool.pk).queues.all()) == [mine.queue]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ("{", "not valid JSON"),
        ('{"a": NaN}', "JSON"),
        ('{"a": "\\u0000"}', "NUL"),
        ("[1]", "use names with their values"),
        ('{"a": {"b": 1}}', "a: use a text"),
        ('{"a": 1, "a": 2}', "twice"),
    ],
)
def test_parameters_that_nobody_could_store_are_refused_beside_their_field(
    parameters: str, sentence: str, manager: Client, mine: World
) -> None:
    errors = errors_of(manager.post(change(mine.queue), of_queue(parameters=parameters)))
    assert sentence in errors["parameters"][0]
    mine.queue.refresh_from_db()
    assert mine.queue.cpu_time_s == 300_000


def test_options_of_a_ce_are_json_that_can_be_stored(manager: Client, mine: World) -> None:
    form = {"type": "local", "identity": "none", "options": '{"a": NaN}', "parameters": "{}", "vo_parameters": "{}"}
    assert "options" in errors_of(manager.post(change(mine.ce), form))


def test_required_tags_are_among_the_tags(manager: Client, mine: World) -> None:
    response = manager.post(change(mine.queue), of_queue(required_tags="gpu"))
    assert errors_of(response)


def test_a_manager_adds_a_ce_and_a_queue_at_an_own_site_only(manager: Client, mine: World, theirs: World) -> None:
    of_ce = {"type": "local", "identity": "none", "options": "{}", "parameters": "{}", "vo_parameters": "{}"}
    assert manager.post(add(ComputingElement), {"site": mine.site.pk, "name": "ce2", **of_ce}).status_code == 302
    assert manager.post(add(Queue), of_queue(ce=mine.ce.pk, name="q2")).status_code == 302
    foreign = manager.post(add(ComputingElement), {"site": theirs.site.pk, "name": "mole", **of_ce})
    assert "site" in errors_of(foreign)
    assert "ce" in errors_of(manager.post(add(Queue), of_queue(ce=theirs.ce.pk, name="mole")))
    assert not ComputingElement.objects.filter(name="mole").exists()
    assert not Queue.objects.filter(name="mole").exists()


def test_at_a_shared_site_a_manager_adds_nothing(manager: Client, mine: World, shared: Shared) -> None:
    form = {"site": shared.site.pk, "name": "mole", "type": "local", "identity": "none"}
    assert "site" in errors_of(manager.post(add(ComputingElement), {**form, "options": "{}"}))


def test_a_site_of_a_manager_serves_the_own_vo_only(manager: Client, mine: World, theirs: World) -> None:
    assert "vos" in errors_of(manager.post(add(Site), of_site(name="new.org")))
    assert "vos" in errors_of(manager.post(add(Site), of_site(name="new.org", vos=[mine.vo.pk, theirs.vo.pk])))
    assert manager.post(add(Site), of_site(name="new.org", vos=[mine.vo.pk])).status_code == 302
    # Later the choice stays: an empty one would give the site to all.
    assert manager.post(change(mine.site), of_site(vos=[theirs.vo.pk])).status_code == 302
    assert list(mine.site.vos.all()) == [mine.vo]


def test_a_site_that_another_vo_uses_too_is_only_looked_at(manager: Client, mine: World, theirs: World) -> None:
    mine.site.vos.add(theirs.vo)
    assert manager.get(change(mine.site)).status_code == 200
    assert manager.post(change(mine.site), of_site(throttle_policy="matches", max_matches="1")).status_code == 403
    assert manager.post(change(mine.queue), of_queue()).status_code == 403
    mine.site.refresh_from_db()
    assert mine.site.throttle_policy == ""


def test_a_throttle_has_what_its_policy_needs(manager: Client, mine: World) -> None:
    assert "max_jobs" in errors_of(manager.post(change(mine.site), of_site(throttle_policy="level2")))
    wrong = of_site(throttle_policy="custom", throttle_requirements="a b")
    assert "throttle_requirements" in errors_of(manager.post(change(mine.site), wrong))
    right = of_site(throttle_policy="custom", throttle_requirements="CurMatches < 5")
    assert manager.post(change(mine.site), right).status_code == 302


# ---- states ----------------------------------------------------------------------------------------------------------


def act(client: Client, row: Any, action: str, **others: str) -> Any:
    return client.post(changelist(type(row)), {"action": action, "_selected_action": [str(row.pk)], **others})


@pytest.mark.parametrize("level", ["site", "ce", "queue"])
def test_a_manager_bans_with_a_reason_that_is_asked_for(level: str, manager: Client, mine: World) -> None:
    row = getattr(mine, level)
    asked = act(manager, row, "ban")
    assert "Set to banned" in asked.content.decode()
    missing = act(manager, row, "ban", confirmed="1", reason=" ")
    assert "say why it is banned" in missing.content.decode()
    row.refresh_from_db()
    assert row.state == ResourceState.ACTIVE
    done = act(manager, row, "ban", confirmed="1", reason="Cooling fails", until="2090-01-01T00:00")
    assert done.status_code == 302
    row.refresh_from_db()
    assert (row.state, row.state_reason, row.state_until.year) == (ResourceState.BANNED, "Cooling fails", 2090)
    assert row.state_changed_by.username == "bob"
    assert "Cooling fails" in LogEntry.objects.latest("pk").change_message
    act(manager, row, "activate", confirmed="1")
    row.refresh_from_db()
    assert (row.state, row.state_until) == (ResourceState.ACTIVE, None)


def test_a_ban_until_yesterday_is_refused(manager: Client, mine: World) -> None:
    response = act(manager, mine.site, "drain", confirmed="1", reason="x", until="2020-01-01T00:00")
    assert "this is past" in response.content.decode()
    mine.site.refresh_from_db()
    assert mine.site.state == ResourceState.ACTIVE


def test_a_forged_ban_of_foreign_and_shared_sites_changes_nothing(
    manager: Client, mine: World, theirs: World, shared: Shared
) -> None:
    for site in (theirs.site, shared.site):
        form = {"action": "ban", "confirmed": "1", "reason": "war"}
        ids = {"_selected_action": [str(mine.site.pk), str(site.pk)]}
        manager.post(changelist(Site), {**form, **ids})
        assert not Site.objects.filter(pk=site.pk).exclude(state=ResourceState.ACTIVE).exists()


def test_the_state_is_no_field_of_the_form(operator: Client, mine: World) -> None:
    assert operator.post(change(mine.site), of_site(state="banned", state_reason="forged")).status_code == 302
    mine.site.refresh_from_db()
    assert (mine.site.state, mine.site.state_reason) == (ResourceState.ACTIVE, "")


# ---- tokens, limits, definitions -------------------------------------------------------------------------------------


def test_a_token_of_a_site_is_shown_once_and_can_be_revoked(manager: Client, mine: World) -> None:
    response = act(manager, mine.site, "issue_advertisement_token")
    assert "wmss_" in response.content.decode()
    assert "no-store" in response["Cache-Control"]
    token = SiteToken.objects.get(site=mine.site, purpose="advertise")
    assert act(manager, token, "revoke").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_no_token_of_a_foreign_or_shared_site(manager: Client, theirs: World, shared: Shared) -> None:
    tokens = SiteToken.objects.count()
    for site in (theirs.site, shared.site):
        assert "wmss_" not in act(manager, site, "issue_registration_token").content.decode()
    act(manager, theirs.site_token, "revoke")
    theirs.site_token.refresh_from_db()
    assert theirs.site_token.revoked_at is None
    assert SiteToken.objects.count() == tokens


def test_an_operator_revokes_tokens_of_users(operator: Client, manager: Client, mine: World) -> None:
    assert act(manager, mine.api_token, "revoke").status_code == 403
    mine.api_token.refresh_from_db()
    assert mine.api_token.revoked_at is None
    act(operator, mine.api_token, "revoke")
    mine.api_token.refresh_from_db()
    assert mine.api_token.revoked_at is not None


def test_a_manager_limits_the_own_vo_and_nobody_else(
    manager: Client, mine: World, theirs: World, shared: Shared
) -> None:
    limits = Limit.objects.count()
    for scope in (
        {},
        {"vo": theirs.vo.pk},
        {"group": theirs.group.pk},
        {"user": theirs.member.pk},
        {"site": shared.site.pk},
        {"user": mine.member.pk},
    ):
        assert manager.post(add(Limit), {"running": "1", **scope}).status_code == 200, scope
    assert Limit.objects.count() == limits
    for scope in (
        {"vo": mine.vo.pk, "site": shared.site.pk},
        {"group": mine.group.pk},
        {"site": mine.site.pk},
        {"ce": mine.ce.pk},
    ):
        assert manager.post(add(Limit), {"running": "1", **scope}).status_code == 302, scope
    assert Limit.objects.count() == limits + 4


def test_a_limit_that_limits_nothing_is_refused(manager: Client, mine: World) -> None:
    assert errors_of(manager.post(add(Limit), {"vo": mine.vo.pk}))


def test_a_limit_does_not_move_to_another_vo(manager: Client, mine: World, theirs: World) -> None:
    assert "vo" in errors_of(manager.post(change(mine.limit), {"vo": theirs.vo.pk, "running": "1"}))
    assert manager.post(change(theirs.limit), {"vo": theirs.vo.pk, "running": "0"}).status_code == 302
    theirs.limit.refresh_from_db()
    assert (theirs.limit.vo, theirs.limit.running) == (theirs.vo, 5)


def test_selected_rows_of_others_are_not_deleted(manager: Client, theirs: World, shared: Shared) -> None:
    for row in (theirs.group, theirs.queue, theirs.limit, theirs.member, shared.site):
        act(manager, row, "delete_selected", post="yes")
        assert type(row)._default_manager.filter(pk=row.pk).exists()


def test_a_manager_chooses_the_setups_but_neither_name_nor_managers(manager: Client, mine: World) -> None:
    stranger = make_user()
    form = {"name": "cms", "setup": "Devel", "setups": "Devel, Production", "managers": [stranger.pk]}
    assert manager.post(change(mine.vo), form).status_code == 302
    mine.vo.refresh_from_db()
    assert (mine.vo.name, mine.vo.setup, mine.vo.setups) == ("lhcb", "Devel", ["Devel", "Production"])
    assert [user.username for user in mine.vo.managers.all()] == ["bob"]


def test_a_default_setup_that_is_none_of_the_setups_is_refused(manager: Client, mine: World) -> None:
    assert errors_of(manager.post(change(mine.vo), {"setup": "Other", "setups": "Production"}))


def test_a_credential_goes_in_and_never_comes_out(
    operator: Client, manager: Client, mine: World, shared: Shared
) -> None:
    form = {"name": "x", "url": "https://example.org/", "credential": "hush-hush"}
    assert operator.post(change(shared.storage_element), form).status_code == 302
    shared.storage_element.refresh_from_db()
    kept = bytes(shared.storage_element.credential_encrypted)
    assert kept
    assert b"hush" not in kept
    for client in (operator, manager):
        assert "hush" not in client.get(change(shared.storage_element)).content.decode()
    operator.post(change(shared.storage_element), {**form, "credential": ""})
    shared.storage_element.refresh_from_db()
    assert bytes(shared.storage_element.credential_encrypted) == kept


def test_a_former_manager_sees_nothing_more(mine: World, manager: Client) -> None:
    mine.vo.managers.clear()
    assert manager.get(changelist(Group)).status_code == 403
    assert manager.post(change(mine.group), {"priority": "1", **NO_MEMBERSHIPS}).status_code in {302, 403}
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000.0


def test_a_manager_of_two_vos_sees_both(mine: World, theirs: World) -> None:
    both = client_of(make_user(staff=True, manages=[mine.vo, theirs.vo]))
    make_group(name="cms_user")
    seen = both.get(changelist(Group)).context["cl"].queryset.values_list("name", flat=True)
    assert sorted(seen) == ["atlas_user", "lhcb_user"]
