"""Each change of administration says who did it and why in the history that managers see."""

from collections.abc import Callable

import pytest

from tests.api.administration.conftest import Administration
from tests.factories import make_group

pytestmark = pytest.mark.django_db

WHY = {"reason": "after the repair"}
BOUNDS: dict[str, object] = {"running": 7, "waiting": None, "cpu_s_per_day": None, "delay_s": None, "burst": None}
#: {what is done: (method, address, body, target of the event)}.
Change = Callable[[Administration], tuple[str, str, dict[str, object], str]]
CHANGES: dict[str, Change] = {
    "lift": lambda of: ("post", f"/api/v1/black-holes/{of.own.black_hole.pk}/lift/", {}, "site lhcb.org"),
    "ask again": lambda of: (
        "post",
        f"/api/v1/sites/lhcb.org/ces/{of.own.ce.name}/ask-again/",
        {},
        "computing element ce.lhcb.org at site lhcb.org",
    ),
    "drain": lambda of: (
        "post",
        "/api/v1/pilots/bulk/",
        {"action": "drain", "ids": [of.own.pilot.pk]},
        f"pilot {of.own.pilot.pk}",
    ),
    "kill": lambda of: (
        "post",
        "/api/v1/pilots/bulk/",
        {"action": "kill", "ids": [of.own.pilot.pk]},
        f"pilot {of.own.pilot.pk}",
    ),
    "limit": lambda of: (
        "put",
        f"/api/v1/limits/{of.own.limit.pk}/",
        BOUNDS,
        f"limit {of.own.limit.pk} on the VO lhcb",
    ),
    "throttle": lambda of: (
        "put",
        "/api/v1/sites/lhcb.org/throttle/",
        {"policy": "level0", "max_submitting_jobs": 5},
        "site lhcb.org",
    ),
    "member": lambda of: (
        "put",
        "/api/v1/groups/lhcb_prod/members/lhcb_member/",
        {},
        "group lhcb_prod",
    ),
    "suspension": lambda of: ("put", "/api/v1/users/lhcb_member/suspension/", {}, "user lhcb_member"),
}


@pytest.mark.parametrize("change", [pytest.param(change, id=name) for name, change in CHANGES.items()])
def test_a_change_is_in_the_history_with_its_reason(administration: Administration, change: Change) -> None:
    make_group(name="lhcb_prod", vo=administration.own.vo)
    method, address, body, target = change(administration)
    manager = administration.manager
    before = len(manager.get("/api/v1/history/").json()["results"])
    answer = getattr(manager, method)(address, {**body, **WHY, "dry_run": True})
    assert answer.status_code == 200, answer.json()
    assert len(manager.get("/api/v1/history/").json()["results"]) == before
    assert getattr(manager, method)(address, {**body, **WHY}).status_code == 200
    newest, *older = manager.get("/api/v1/history/").json()["results"]
    assert len(older) == before
    assert (newest["who"], newest["target"]) == ("mallory", target)
    assert WHY["reason"] in str(newest["facts"])
