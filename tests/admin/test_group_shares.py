"""The priority of a group: what each group of the VO would get is shown, and a change says why and what it did."""

import re

import pytest
from django.test import Client
from django.urls import reverse

from taskqueues.models import GroupUsage, TaskQueue
from taskqueues.services.priorities import recalculate
from tests.admin.conftest import NO_MEMBERSHIPS, RowsOfVO, change, client_of, errors_of
from tests.factories import make_group, make_job, make_user
from wms.accounts.models import Group, SecurityEvent

pytestmark = pytest.mark.django_db

REASON = "The conference is in May."


def shares(group: Group) -> str:
    return reverse("admin:accounts_group_shares", args=[group.pk])


def rows_of(client: Client, group: Group, priority: str = "") -> dict[str, list[str]]:
    """Return {name of a group: its cells}."""
    page = client.get(shares(group), {"priority": priority}).content.decode()
    found = re.findall(r'<th scope="row">(\w+)</th>(.*?)</tr>', page)
    return {name: re.findall(r"<td>(.*?)</td>", cells) for name, cells in found}


def test_the_shares_of_all_groups_are_beside_the_priority(manager: Client, mine: RowsOfVO) -> None:
    make_group(name="lhcb_prod", vo=mine.vo, priority=3000)
    page = manager.get(change(mine.group)).content.decode()
    assert f"Shares in {mine.vo}" in page
    assert rows_of(manager, mine.group) == {"lhcb_prod": ["3000", "75 %", "–"], "lhcb_user": ["1000", "25 %", "–"]}


def test_a_typed_priority_shows_what_each_group_would_get(manager: Client, mine: RowsOfVO) -> None:
    make_group(name="lhcb_prod", vo=mine.vo, priority=3000)
    assert rows_of(manager, mine.group, "6000") == {
        "lhcb_prod": ["3000", "75 %", "–", "33.3 %"],
        "lhcb_user": ["1000", "25 %", "–", "66.7 %"],
    }
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000


def test_what_is_shown_is_what_task_queues_get(manager: Client, mine: RowsOfVO) -> None:
    mine.vo.history_fair_share = True
    mine.vo.save()
    other = make_group(name="lhcb_prod", vo=mine.vo, priority=3000)
    TaskQueue.objects.exclude(group__in=[mine.group, other]).update(priority=0)
    for group, used_s in ((mine.group, 9000.0), (other, 1000.0)):
        make_job(group=group)
        GroupUsage.objects.create(group=group, used_s=used_s)
    shown = {name: cells[-1] for name, cells in rows_of(manager, mine.group, "6000").items()}

    form = {"priority": "6000", "reason": REASON, **NO_MEMBERSHIPS}
    assert manager.post(change(mine.group), form).status_code == 302
    recalculate()
    priorities: dict[str, float] = {}
    for name, priority in TaskQueue.objects.filter(group__vo=mine.vo).values_list("group__name", "priority"):
        priorities[name] = priorities.get(name, 0.0) + priority
    drawn = {name: f"{100 * each / sum(priorities.values()):.3g} %" for name, each in priorities.items()}
    assert drawn == shown


@pytest.mark.parametrize("typed", ["x", "-1", "1e13", "nan", "inf"])
def test_what_is_no_priority_is_said(manager: Client, mine: RowsOfVO, typed: str) -> None:
    page = manager.get(shares(mine.group), {"priority": typed}).content.decode()
    assert "Give a number from 0 to 1e12." in page
    assert rows_of(manager, mine.group, typed) == {"lhcb_user": ["1000", "100 %", "–"]}


def test_others_do_not_see_the_shares(theirs: RowsOfVO, mine: RowsOfVO, manager: Client) -> None:
    assert manager.get(shares(theirs.group)).status_code == 404
    assert client_of(make_user(groups=[mine.group])).get(shares(mine.group)).status_code == 302
    assert Client().get(shares(mine.group)).status_code == 302


def test_a_changed_priority_needs_a_reason(manager: Client, mine: RowsOfVO) -> None:
    answer = manager.post(change(mine.group), {"priority": "1234567", **NO_MEMBERSHIPS})
    assert "reason" in errors_of(answer)
    assert "With 1234567" in answer.content.decode()
    mine.group.refresh_from_db()
    assert mine.group.priority == 1000


def test_a_changed_priority_says_what_it_did(manager: Client, mine: RowsOfVO) -> None:
    make_group(name="lhcb_prod", vo=mine.vo, priority=3000)
    form = {"priority": "6000", "reason": REASON, **NO_MEMBERSHIPS}
    page = manager.post(change(mine.group), form, follow=True).content.decode()
    effect = "1000 → 6000, its share 25 % → 66.7 %"
    assert f"Priority of lhcb_user: {effect}; takes effect within a second." in page
    assert f'href="{reverse("portal:shares")}"' in page
    history = manager.get(reverse("admin:accounts_group_history", args=[mine.group.pk])).content.decode()
    assert "<td>bob</td>" in history
    for line in ("priority: 1000 → 6000", f"reason: {REASON}", "share: 25 % → 66.7 %"):
        assert f"<div>{line}</div>" in history
    assert SecurityEvent.objects.latest("pk").facts == {
        "what": "changed",
        "changes": {"priority": "1000 → 6000", "reason": REASON, "share": "25 % → 66.7 %"},
    }
