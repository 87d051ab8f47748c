"""Changes in the admin are in the security log, with names and without values; nobody can change the log."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from pilots.models import Pilot
from resources.models import Site
from tests.admin.conftest import (
    NO_DNS,
    NO_INVITATIONS,
    NO_MEMBERSHIPS,
    RowsOfVO,
    Shared,
    act,
    add,
    change,
    changelist,
)
from tests.factories import make_user
from wms.accounts.domain import SecurityEventKind as Kind
from wms.accounts.models import SecurityEvent, User
from wms.accounts.security_log import record

pytestmark = pytest.mark.django_db

SECRET = "hunter2 of the store"


def events() -> list[tuple[Any, ...]]:
    """Return (kind, actor, object, facts) of each event, oldest first."""
    rows = SecurityEvent.objects.filter(address="127.0.0.1").order_by("id")  # those without make the sample rows
    told = list(rows.values_list("kind", "actor_name", "target", "facts"))
    assert SECRET not in str(told)
    return told


def recorded(what: str, changes: dict[str, Any]) -> dict[str, Any]:
    return {"what": what, "changes": changes}


def of_person(**others: str) -> dict[str, str]:
    return {"first_name": "", "last_name": "", "email": "", **NO_MEMBERSHIPS, **NO_DNS, **others}


def test_rights_given_and_a_suspension_are_two_events(superuser: Client) -> None:
    bob = make_user(username="bob")
    form = of_person(operator="on", is_staff="on", is_superuser="on")
    assert superuser.post(change(bob), form).status_code == 302
    assert act(superuser, bob, "suspend", confirmed="1").status_code == 302
    flags = {"operator": True, "is_staff": True, "is_superuser": True}
    assert sorted(events()) == [
        (Kind.RIGHTS_CHANGED, "root", "user bob", recorded("changed", flags)),
        (Kind.USER_SUSPENDED, "root", "user bob", recorded("changed", {"is_active": False})),
    ]


def test_a_user_is_added_and_removed(operator: Client) -> None:
    assert operator.post(add(User), {"username": "eve", **NO_MEMBERSHIPS}).status_code == 200  # the one-time link
    eve = User.objects.get(username="eve")
    page = reverse("admin:accounts_user_delete", args=[eve.pk])
    assert operator.post(page, {"post": "yes"}).status_code == 302
    assert [event[:3] for event in events()] == [
        (Kind.USER_ADDED, "olivia", "user eve"),
        (Kind.PASSWORD_LINK_ISSUED, "olivia", "user eve"),
        (Kind.USER_REMOVED, "olivia", "user eve"),
    ]


def test_users_deleted_by_the_list_action_are_recorded(operator: Client) -> None:
    act(operator, make_user(username="eve"), "delete_selected", post="yes")
    assert events() == [(Kind.USER_REMOVED, "olivia", "user eve", recorded("deleted", {}))]


def test_memberships_are_named(operator: Client, mine: RowsOfVO) -> None:
    make_user(username="nora")
    rows = {**NO_INVITATIONS, "memberships-TOTAL_FORMS": "1", "memberships-INITIAL_FORMS": "0"}
    form = {"priority": str(mine.group.priority), "properties": ["JOB_SHARING"], "memberships-0-user": "nora", **rows}
    assert operator.post(change(mine.group), form).status_code == 302
    changes = {"properties": ["+JOB_SHARING"], "memberships": ["+nora in lhcb_user"]}
    assert events()[-1] == (Kind.RIGHTS_CHANGED, "olivia", "group lhcb_user", recorded("changed", changes))


def test_managers_of_a_vo_are_named(operator: Client, mine: RowsOfVO) -> None:
    nora = make_user(username="nora")
    form = {"name": "lhcb", "setup": "Production", "setups": "Production", "managers": [nora.pk]}
    assert operator.post(change(mine.vo), form | {"any_segment_fraction": "0.0"}).status_code == 302
    assert events()[-1] == (Kind.RIGHTS_CHANGED, "olivia", "VO lhcb", recorded("changed", {"managers": ["+nora"]}))


def test_a_pause_is_recorded_with_its_end_and_reason_and_so_is_its_lifting(operator: Client, mine: RowsOfVO) -> None:
    form = {"name": "lhcb", "setup": "Production", "setups": "Production", "any_segment_fraction": "0.0"}
    pause = {"paused_until_0": "2099-12-01", "paused_until_1": "18:00", "pause_reason": "storage is full"}
    assert operator.post(change(mine.vo), form | pause).status_code == 302
    assert operator.post(change(mine.vo), form).status_code == 302
    until = "2099-12-01 18:00:00 UTC"
    assert [facts["changes"] for *_, facts in events()[-2:]] == [
        {"paused_until": until, "pause_reason": "storage is full"},
        {"paused_until": f"{until} → none", "pause_reason": "storage is full → none"},
    ]


def test_changed_options_of_a_computing_element_are_recorded_without_values(
    operator: Client, mine: RowsOfVO, settings: Settings
) -> None:
    settings.WMS_CE_PROGRAMS_OVER_HTTP = True
    form = {"type": "ssh", "identity": "none", "options": f'{{"host": "a.org", "identity_file": "{SECRET}"}}'}
    assert operator.post(change(mine.ce), {**form, "parameters": "{}", "vo_parameters": "{}"}).status_code == 302
    kind, who, target, facts = events()[-1]
    assert (kind, who, target) == (
        Kind.COMPUTING_ELEMENT_CHANGED,
        "olivia",
        "computing element ce.lhcb.org at site lhcb.org",
    )
    assert facts["changes"] == {"type": "ssh", "options": ["+host", "+identity_file"]}


def test_a_credential_of_a_storage_element_is_not_recorded(operator: Client, shared: Shared) -> None:
    form = {"name": "CERN-DST", "url": shared.storage_element.url, "credential": SECRET}
    assert operator.post(change(shared.storage_element), form).status_code == 302
    kind, who, target, facts = events()[-1]
    assert (kind, who, target) == (Kind.STORAGE_ELEMENT_CHANGED, "olivia", "storage element CERN-DST")
    assert facts["changes"]["credential"] in {"changed", "[masked]"}
    shared.storage_element.refresh_from_db()
    assert shared.storage_element.credential_encrypted


def test_site_bans_and_tokens_are_recorded_by_the_services(manager: Client, mine: RowsOfVO) -> None:
    act(manager, mine.site, "ban", confirmed="yes", reason="The disk is full", until="")
    act(manager, mine.site, "issue_registration_token")
    banned, issued = events()[-2:]
    facts = {"changes": {"state": "active → banned", "reason": "The disk is full"}}
    assert banned == (Kind.RESOURCE_STATE_CHANGED, "bob", "site lhcb.org", facts)
    assert issued[:3] == (Kind.TOKEN_ISSUED, "bob", "site lhcb.org")


def test_revoked_tokens_are_recorded(operator: Client, mine: RowsOfVO) -> None:
    act(operator, mine.api_token, "revoke")
    act(operator, mine.site_token, "revoke")
    of_user, of_site = events()[-2:]
    assert of_user == (Kind.TOKEN_REVOKED, "olivia", "user lhcb_member", {"token_id": mine.api_token.pk})
    facts = {"token_id": mine.site_token.pk, "purpose": "register"}
    assert of_site == (Kind.TOKEN_REVOKED, "olivia", "site lhcb.org", facts)


def test_revoked_pilots_are_recorded(manager: Client, mine: RowsOfVO) -> None:
    act(manager, Pilot.objects.get(), "kill", confirmed="1", reason="stuck")
    assert events()[-1] == (Kind.PILOT_REVOKED, "bob", f"pilot {mine.pilot.pk}", {"reason": "revoked by bob: stuck"})


def test_everything_else_is_a_change_of_the_configuration(operator: Client) -> None:
    form = {"name": "new.org", "parameters": "{}", "vo_parameters": "{}"}
    form |= {"throttle_policy": "", "throttle_when_expired": "count", "throttle_advertisement_s": "300"}
    assert operator.post(add(Site), form).status_code == 302
    kind, who, target, facts = events()[-1]
    assert (kind, who, target, facts["what"]) == (Kind.CONFIGURATION_CHANGED, "olivia", "site new.org", "added")


def test_a_form_that_changes_nothing_is_not_recorded(operator: Client) -> None:
    nora = make_user(username="nora")
    assert operator.post(change(nora), of_person(is_active="on")).status_code == 302
    assert events() == []


def test_a_one_time_link_is_recorded_without_its_secret(operator: Client) -> None:
    nora = make_user(username="nora")
    answer = operator.post(reverse("admin:auth_user_password_change", args=[nora.pk]))
    link = answer.context["link"]
    assert events()[-1][:3] == (Kind.PASSWORD_LINK_ISSUED, "olivia", "user nora")
    assert link.rstrip("/").rpartition("/")[2] not in str(events())


# ---- The page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def event() -> SecurityEvent:
    record(Kind.USER_SUSPENDED, actor=make_user(username="wanda"), address="192.0.2.7", target="user mallory")
    return SecurityEvent.objects.get(kind=Kind.USER_SUSPENDED)


def test_operators_read_and_search_the_log(operator: Client, event: SecurityEvent) -> None:
    page = changelist(SecurityEvent)
    for query in ("", "?kind=user.suspended", "?days=7", "?q=wanda", "?q=192.0.2", "?q=mallory"):
        assert "user mallory" in operator.get(page + query).content.decode(), query
    for query in ("?kind=user.removed", "?q=nobody"):
        assert "user mallory" not in operator.get(page + query).content.decode(), query
    assert "192.0.2.7" in operator.get(change(event)).content.decode()


@pytest.mark.parametrize("who", ["operator", "superuser"])
def test_the_security_log_is_read_only(who: str, event: SecurityEvent, request: pytest.FixtureRequest) -> None:
    client: Client = request.getfixturevalue(who)
    before = SecurityEvent.objects.filter(pk=event.pk).values().get()
    assert client.post(add(SecurityEvent), {"kind": "x"}).status_code == 403
    assert client.post(change(event), {"target": "user bob"}).status_code == 403
    page = reverse("admin:accounts_securityevent_delete", args=[event.pk])
    assert client.post(page, {"post": "yes"}).status_code == 403
    act(client, event, "delete_selected", post="yes")
    assert SecurityEvent.objects.filter(pk=event.pk).values().get() == before


def test_managers_do_not_see_the_security_log(manager: Client, event: SecurityEvent) -> None:
    assert manager.get(changelist(SecurityEvent)).status_code == 403
    assert manager.get(change(event)).status_code in {302, 403}


def test_events_stay_when_their_user_is_deleted(operator: Client, event: SecurityEvent) -> None:
    wanda = User.objects.get(username="wanda")
    page = reverse("admin:accounts_user_delete", args=[wanda.pk])
    assert operator.post(page, {"post": "yes"}).status_code == 302
    event.refresh_from_db()
    assert (event.actor, event.actor_name) == (None, "wanda")
    assert not User.objects.filter(pk=wanda.pk).exists()
