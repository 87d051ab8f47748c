"""Reverting changes of the history: over REST, and on their page in the portal."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings

from resources.models import Site
from taskqueues.models import ChangedGroup, Limit
from tests.api.administration.conftest import Administration, changes_of, history_of
from tests.factories import make_site, make_user
from wms.accounts.domain import SecurityEventKind
from wms.accounts.models import VO, ApiToken, ConfigurationChange, Group, Invitation, Membership
from wms.accounts.security_log import record

pytestmark = pytest.mark.django_db

PRIORITY = "/api/v1/groups/lhcb_user/priority/"
STATE = "/api/v1/sites/lhcb.org/state/"
CLOSED = "No job of the group lhcb_user starts: a priority of 0 gives it no share."


def newest() -> int:
    return ConfigurationChange.objects.exclude(row_type="").order_by("-pk").values_list("pk", flat=True)[0]


def revert(client: Any, change: int | None = None, **body: object) -> Any:
    return client.post(f"/api/v1/history/{newest() if change is None else change}/revert/", body)


def refusal(answer: Any) -> tuple[int, str, str]:
    return answer.status_code, answer.json()["code"], answer.json()["detail"]


def test_a_priority_gets_its_former_value_with_the_number_of_the_change_as_reason(
    administration: Administration,
) -> None:
    before = administration.own.group.priority
    administration.manager.put(PRIORITY, {"priority": before + 0.25, "reason": "a campaign"})
    change = newest()
    answer = revert(administration.manager)
    assert answer.json() == {"target": "group lhcb_user", "change": f"priority: {before + 0.25:g} → {before:g}"}
    assert Group.objects.get(pk=administration.own.group.pk).priority == before
    assert f"reason: Reverts change {change}" in history_of(administration.own.group)
    assert ChangedGroup.objects.filter(group=administration.own.group).exists()
    # The revert is a change, which can be reverted.
    assert revert(administration.manager, reason="after all").status_code == 200
    assert Group.objects.get(pk=administration.own.group.pk).priority == before + 0.25


def test_a_value_that_has_changed_since_is_not_reverted(administration: Administration) -> None:
    administration.manager.put(PRIORITY, {"priority": 20, "reason": "a campaign"})
    change = newest()
    administration.manager.put(PRIORITY, {"priority": 30, "reason": "a larger one"})
    sentence = "The value has changed since: it is 30 now."
    assert refusal(revert(administration.manager, change)) == (409, "cannot_revert", sentence)
    assert Group.objects.get(pk=administration.own.group.pk).priority == 30


def test_what_a_revert_stops_is_confirmed_and_a_dry_run_changes_nothing(administration: Administration) -> None:
    Group.objects.filter(pk=administration.own.group.pk).update(priority=0)
    administration.manager.put(PRIORITY, {"priority": 20, "reason": "open again"})
    change = newest()
    answer = revert(administration.manager, change)
    assert (answer.status_code, answer.json()["errors"]) == (409, {"confirmed": [CLOSED]})
    assert revert(administration.manager, change, confirmed=[CLOSED], dry_run=True).status_code == 200
    assert Group.objects.get(pk=administration.own.group.pk).priority == 20
    assert revert(administration.manager, change, confirmed=[CLOSED]).status_code == 200
    assert Group.objects.get(pk=administration.own.group.pk).priority == 0


def test_a_state_is_reverted_with_its_reason_and_end(administration: Administration) -> None:
    until = (timezone.now() + timedelta(hours=2)).replace(microsecond=0)
    administration.manager.put(STATE, {"state": "banned", "reason": "storage is moved", "until": until.isoformat()})
    administration.manager.put(STATE, {"state": "active"})
    change = newest()
    assert revert(administration.manager).status_code == 200
    site = Site.objects.get(name="lhcb.org")
    assert (site.state, site.state_until) == ("banned", until)
    assert site.state_reason == f"Reverts change {change}: storage is moved"
    for level in ("ces/ce.lhcb.org/", "ces/ce.lhcb.org/queues/lhcb_queue/"):
        body = {"state": "draining", "reason": "new kernel"}
        assert administration.manager.put(f"/api/v1/sites/lhcb.org/{level}state/", body).status_code == 200
        assert revert(administration.manager).json()["change"].startswith("state: draining → active")


def test_a_setting_of_a_throttle_and_a_bound_of_a_limit_are_reverted(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    throttle = f"/api/v1/sites/{own.throttle.name}/throttle/"
    settings = {name: value for name, value in manager.get(throttle).json().items() if name not in {"site", "now"}}
    assert manager.put(throttle, {**settings, "advertisement_s": 77}).status_code == 200
    assert revert(manager).status_code == 200
    after = {name: value for name, value in manager.get(throttle).json().items() if name not in {"site", "now"}}
    assert after == settings
    for bounds in ({"running": 9}, {"running": 9, "waiting": 100}):
        assert manager.put(f"/api/v1/limits/{own.limit.pk}/", bounds).status_code == 200
    assert revert(manager).json()["change"] == "waiting: 100 → none"
    assert Limit.objects.values_list("running", "waiting").get(pk=own.limit.pk) == (9, None)


def test_a_pause_is_reverted(administration: Administration) -> None:
    administration.manager.put("/api/v1/vos/lhcb/pause/", {"for_s": 600, "reason": "storage is moved"})
    assert revert(administration.manager).status_code == 200
    assert VO.objects.values_list("paused_until", "pause_reason").get(name="lhcb") == (None, "")


def test_a_membership_is_reverted_after_a_fresh_log_in_only(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    assert manager.delete("/api/v1/groups/lhcb_user/members/lhcb_member/").status_code == 204
    removed = newest()
    # Nobody whom the manager sees is of this name any more: an operator puts the user back.
    assert revert(administration.operator).json()["change"] == "memberships: +lhcb_member in lhcb_user"
    assert Membership.objects.filter(group=own.group, user=own.member).exists()
    sentence = "lhcb_member is a member again: nothing is left to revert."
    assert refusal(revert(manager, removed)) == (409, "cannot_revert", sentence)
    ApiToken.objects.update(created_at=timezone.now() - timedelta(days=1))
    answer = revert(manager)
    assert (answer.status_code, answer.json()["code"]) == (403, "fresh_log_in_needed")
    assert Membership.objects.filter(group=own.group, user=own.member).exists()


def test_changes_of_other_kinds_and_of_rows_that_are_gone_have_no_revert(administration: Administration) -> None:
    own, manager = administration.own, administration.manager
    kind = SecurityEventKind.CONFIGURATION_CHANGED
    for changes in ({"properties": ["+JOB_SHARING"]}, {"priority": "1 → 2", "properties": ["+JOB_SHARING"]}):
        record(kind, actor="olga", target="group lhcb_user", row=own.group, what="changed", changes=changes)
        assert refusal(revert(manager))[:2] == (409, "cannot_revert")
    manager.put(f"/api/v1/limits/{own.limit.pk}/", {"running": 9})
    change = newest()
    manager.delete(f"/api/v1/limits/{own.limit.pk}/")
    sentence = f"The limit {own.limit.pk} on the VO lhcb is no longer there."
    assert refusal(revert(manager, change)) == (409, "cannot_revert", sentence)


def test_a_value_that_the_history_does_not_keep_in_full_is_not_guessed(administration: Administration) -> None:
    site, manager = administration.own.throttle, administration.manager
    expression = "CurMatches < 5 || " + " || ".join(f"CurMatches < {number}" for number in range(10))
    Site.objects.filter(pk=site.pk).update(throttle_policy="custom", throttle_requirements=expression)
    address = f"/api/v1/sites/{site.name}/throttle/"
    settings = {name: value for name, value in manager.get(address).json().items() if name not in {"site", "now"}}
    assert manager.put(address, {**settings, "requirements": "CurMatches < 7"}).status_code == 200
    assert refusal(revert(manager))[2].startswith("The history does not keep the former value in full;")


def test_only_those_who_may_make_a_change_may_revert_it(administration: Administration) -> None:
    shared = make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    administration.operator.put("/api/v1/sites/shared.org/state/", {"state": "banned", "reason": "moved"})
    assert revert(administration.manager).status_code == 403
    administration.operator.put("/api/v1/groups/atlas_user/priority/", {"priority": 3, "reason": "x"})
    assert revert(administration.manager).status_code == 404
    assert Site.objects.get(pk=shared.pk).state == "banned"
    assert Group.objects.get(name="atlas_user").priority == 3


def test_the_page_of_a_change_shows_what_is_reverted_and_leads_there_from_both_histories(
    administration: Administration, settings: Settings
) -> None:
    own, mallory = administration.own, administration.mallory
    mallory.is_staff = True
    mallory.save()
    browser = Client()
    browser.force_login(mallory)
    Group.objects.filter(pk=own.group.pk).update(priority=0)
    administration.manager.put(PRIORITY, {"priority": 20, "reason": "open again"})
    change = newest()
    address = reverse("portal:change-revert", args=[change])
    histories = ("/changes/", reverse("admin:accounts_group_history", args=[own.group.pk]))
    assert all(f'href="{address}"' in browser.get(each).content.decode() for each in histories)
    page = browser.get(address).content.decode()
    assert "priority: 20 → 0" in page
    assert f'value="Reverts change {change}"' in page
    refused = browser.post(address, {"reason": "by mistake"}).content.decode()
    assert f'name="confirmed" value="{CLOSED}"' in refused
    assert browser.post(address, {"reason": "by mistake", "confirmed": [CLOSED]}).status_code == 302
    (*_, (_, _, changes)) = changes_of()
    assert (changes["priority"], changes["reason"]) == ("20 → 0", "by mistake")
    assert "The value has changed since: it is 0 now." in browser.get(address).content.decode()
    administration.manager.delete("/api/v1/groups/lhcb_user/members/lhcb_member/")
    settings.WMS_FRESH_LOG_IN_S = 0
    address = reverse("portal:change-revert", args=[newest()])
    assert browser.get(address).status_code == 200
    assert browser.post(address, {"reason": "by mistake"}).status_code == 302
    assert not Invitation.objects.exists()


def test_the_page_is_not_for_others(administration: Administration) -> None:
    administration.manager.put(PRIORITY, {"priority": 20, "reason": "open again"})
    browser = Client()
    browser.force_login(make_user(username="pat"))
    assert browser.get(reverse("portal:change-revert", args=[newest()])).status_code == 404
