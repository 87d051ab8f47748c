"""The priority of a group over REST."""

from typing import Any

import pytest

from taskqueues.models import ChangedGroup
from tests.api.administration.conftest import Administration, changes_of, history_of
from tests.factories import make_group
from wms.accounts.models import Group

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/groups/lhcb_user/priority/"
CLOSED = "No job of the group lhcb_user starts: a priority of 0 gives it no share."


@pytest.fixture
def shared(administration: Administration) -> Administration:
    """Return them with a second group of the VO, which has three quarters of it."""
    Group.objects.filter(pk=administration.own.group.pk).update(priority=1000.0)
    make_group(name="lhcb_prod", vo=administration.own.vo, priority=3000.0)
    return administration


def parts(answer: Any) -> dict[str, tuple[float, float, float]]:
    return {
        each["group"]: (each["priority"], each["configured"], each["in_effect"]) for each in answer.json()["groups"]
    }


def test_the_parts_of_all_groups_are_shown(shared: Administration) -> None:
    answer = shared.manager.get(ADDRESS)
    assert {name: answer.json()[name] for name in ("group", "vo", "priority")} == {
        "group": "lhcb_user", "vo": "lhcb", "priority": 1000.0,
    }  # fmt: skip
    assert parts(answer) == {"lhcb_prod": (3000.0, 0.75, 0.75), "lhcb_user": (1000.0, 0.25, 0.25)}
    assert {each["delivered"] for each in answer.json()["groups"]} == {None}


def test_a_priority_is_changed_with_its_reason_and_takes_effect(shared: Administration) -> None:
    answer = shared.manager.put(ADDRESS, {"priority": 9000, "reason": "a campaign"})
    assert answer.status_code == 200, answer.json()
    assert parts(answer) == {"lhcb_user": (9000.0, 0.75, 0.75), "lhcb_prod": (3000.0, 0.25, 0.25)}
    assert Group.objects.get(name="lhcb_user").priority == 9000
    assert changes_of() == [
        ("mallory", "group lhcb_user", {"priority": "1000 → 9000", "reason": "a campaign", "share": "25 % → 75 %"}),
    ]
    assert sorted(history_of(shared.own.group)) == [
        "priority: 1000 → 9000",
        "reason: a campaign",
        "share: 25 % → 75 %",
    ]
    assert ChangedGroup.objects.filter(group=shared.own.group).exists()


def test_the_same_priority_again_changes_nothing(shared: Administration) -> None:
    assert shared.manager.put(ADDRESS, {"priority": 1000, "reason": "once more"}).status_code == 200
    assert (changes_of(), history_of(shared.own.group)) == ([], [])


def test_a_dry_run_previews_the_parts(shared: Administration) -> None:
    answer = shared.manager.put(ADDRESS, {"priority": 9000, "reason": "a try", "dry_run": True})
    assert parts(answer)["lhcb_user"] == (9000.0, 0.75, 0.75)
    assert Group.objects.get(name="lhcb_user").priority == 1000
    assert (changes_of(), history_of(shared.own.group)) == ([], [])


def test_a_priority_of_0_is_refused_until_it_is_confirmed(shared: Administration) -> None:
    closed = {"priority": 0, "reason": "a pause"}
    for body in (closed, {**closed, "confirmed": ["No job starts."]}, {**closed, "dry_run": True}):
        answer = shared.manager.put(ADDRESS, body)
        assert (answer.status_code, answer.json()["code"]) == (409, "confirmation_needed")
        assert answer.json()["errors"] == {"confirmed": [CLOSED]}
        assert f"{CLOSED} 1 job waits." in answer.json()["detail"]
        assert Group.objects.get(name="lhcb_user").priority == 1000
    assert shared.manager.put(ADDRESS, {**closed, "confirmed": [CLOSED]}).status_code == 200
    assert Group.objects.get(name="lhcb_user").priority == 0
    ((_, _, changes),) = changes_of()
    assert changes == {"priority": "1000 → 0", "reason": "a pause", "confirmed": [f"+{CLOSED}"], "share": "25 % → 0 %"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"priority": -1, "reason": "x"}, "priority"),
        ({"priority": 1e13, "reason": "x"}, "priority"),
        ({"priority": "9000", "reason": "x"}, "priority"),
        ({"priority": 9000}, "reason"),
        ({"priority": 9000, "reason": " "}, "reason"),
        ({"priority": 9000, "reason": "x", "confirmed": CLOSED}, "confirmed"),
    ],
)
def test_what_is_wrong_is_said_by_field(shared: Administration, body: dict[str, Any], field: str) -> None:
    answer = shared.manager.put(ADDRESS, body)
    assert (answer.status_code, [*answer.json()["errors"]]) == (400, [field])
    assert Group.objects.get(name="lhcb_user").priority == 1000
