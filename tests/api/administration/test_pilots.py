"""Draining and killing pilots over REST."""

from typing import Any

import pytest

from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from tests.api.administration.conftest import Administration, changes_of
from tests.factories import make_pilot

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/pilots/bulk/"


def untouched() -> list[int]:
    return list(Pilot.objects.filter(drained_at=None, revoked_at=None).order_by("pk").values_list("pk", flat=True))


def test_pilots_found_by_a_filter_are_drained(administration: Administration) -> None:
    own, other = administration.own, administration.other
    ended = make_pilot(vo=own.vo, queue=own.queue, status=PilotStatus.DONE)
    elsewhere = make_pilot(vo=own.vo)
    answer = administration.manager.post(
        ADDRESS, {"action": "drain", "filter": {"ce": "ce.lhcb.org"}, "reason": "kernel update"}
    )
    assert (answer.status_code, answer.json()) == (200, {"matched": 1, "done": 1})
    own.pilot.refresh_from_db()
    assert own.pilot.drain_reason == "drained by mallory: kernel update"
    assert untouched() == sorted([ended.pk, elsewhere.pk, other.pilot.pk])
    again = {"action": "drain", "ids": [own.pilot.pk, other.pilot.pk], "reason": "x"}
    assert administration.manager.post(ADDRESS, again).json() == {"matched": 1, "done": 0}


def test_pilots_named_by_their_ids_are_killed(administration: Administration) -> None:
    own, other = administration.own, administration.other
    body = {"action": "kill", "ids": [own.pilot.pk, other.pilot.pk, 10**9], "reason": "they loop"}
    assert administration.manager.post(ADDRESS, {**body, "dry_run": True}).json() == {"matched": 1, "done": 0}
    assert untouched() == sorted([own.pilot.pk, other.pilot.pk])
    assert administration.manager.post(ADDRESS, body).json() == {"matched": 1, "done": 1}
    own.pilot.refresh_from_db()
    assert own.pilot.revoked_at is not None
    assert own.pilot.status_reason == "Revoked by mallory: they loop"
    assert untouched() == [other.pilot.pk]
    assert [each[:2] for each in changes_of("pilot.revoked")] == [("mallory", f"pilot {own.pilot.pk}")]
    assert administration.operator.post(ADDRESS, body).json() == {"matched": 2, "done": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"action": "drain"}, "ids"),
        ({"action": "drain", "ids": [1], "filter": {"site": "x"}}, "ids"),
        ({"action": "drain", "filter": {}}, "filter"),
        ({"action": "drain", "filter": {"sight": "x"}}, "filter.sight"),
        ({"action": "stop", "ids": [1]}, "action"),
        ({"action": "drain", "ids": []}, "ids"),
    ],
)
def test_what_is_wrong_is_said_by_field(administration: Administration, body: dict[str, Any], field: str) -> None:
    answer = administration.manager.post(ADDRESS, {**body, "reason": "x"})
    assert (answer.status_code, [*answer.json()["errors"]]) == (400, [field])
    assert len(untouched()) == 2
