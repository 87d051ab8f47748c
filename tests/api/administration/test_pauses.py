"""The pause of matching for a VO over REST."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tests.api.administration.conftest import Administration, changes_of, history_of
from wms.accounts.models import VO

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/vos/lhcb/pause/"
PAUSE = {"for_s": 7200, "reason": "storage is moved"}


def test_a_manager_pauses_the_vo_and_lets_it_go_on(administration: Administration) -> None:
    manager = administration.manager
    assert manager.get(ADDRESS).json() == {
        "vo": "lhcb",
        "paused": False,
        "until": None,
        "reason": "",
        "all_until": None,
        "all_reason": "",
        "waiting_jobs": 1,
        "running_jobs": 1,
    }
    answer = manager.put(ADDRESS, PAUSE)
    assert (answer.status_code, answer.json()["paused"]) == (200, True)
    vo = VO.objects.get(name="lhcb")
    assert vo.paused_until is not None
    assert timedelta(minutes=115) < vo.paused_until - timezone.now() < timedelta(minutes=125)
    assert "storage is moved" in vo.why_paused(timezone.now())
    assert manager.get(ADDRESS).json() == answer.json()
    assert manager.delete(ADDRESS).status_code == manager.delete(ADDRESS).status_code == 204
    assert VO.objects.get(name="lhcb").why_paused(timezone.now()) == ""
    pause, resume = changes_of()
    assert pause[:2] == resume[:2] == ("mallory", "VO lhcb")
    assert pause[2]["pause_reason"] == "storage is moved"
    assert resume[2]["pause_reason"] == "storage is moved → none"
    assert [line for line in history_of(vo) if line.startswith("pause_reason")] == [
        "pause_reason: storage is moved",
        "pause_reason: storage is moved → none",
    ]


def test_the_same_pause_again_is_not_recorded(administration: Administration) -> None:
    pause = {"until": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "storage is moved"}
    for _ in range(2):
        assert administration.manager.put(ADDRESS, pause).status_code == 200
    longer = {**pause, "until": (timezone.now() + timedelta(hours=2)).isoformat()}
    assert administration.manager.put(ADDRESS, longer).status_code == 200
    assert [sorted(changes) for *_, changes in changes_of()] == [["pause_reason", "paused_until"], ["paused_until"]]


def test_a_dry_run_pauses_nothing(administration: Administration) -> None:
    assert administration.manager.put(ADDRESS, {**PAUSE, "dry_run": True}).json()["reason"] == "storage is moved"
    assert VO.objects.get(name="lhcb").paused_until is None
    assert changes_of() == []


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"reason": "x"}, "invalid_input", "until"),
        ({"for_s": 60}, "invalid_input", "reason"),
        ({"until": "2026-01-01T00:00:00Z", "reason": "x"}, "bad_pause", "until"),
        ({**PAUSE, "until": "2036-01-01T00:00:00Z"}, "invalid_input", "for_s"),
        ({"until": "9999-12-31T00:00:00Z", "reason": "x"}, "invalid_input", "until"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    administration: Administration, body: dict[str, Any], code: str, field: str
) -> None:
    answer = administration.manager.put(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert [*answer.json()["errors"]] == [field]
    assert VO.objects.get(name="lhcb").paused_until is None


# ---- all VOs ---------------------------------------------------------------------------------------------------------

OF_ALL = "/api/v1/pause/"


def test_an_operator_pauses_all_vos_and_pauses_of_their_own_stay(administration: Administration) -> None:
    operator, now = administration.operator, timezone.now()
    assert administration.manager.put(ADDRESS, {**PAUSE, "for_s": 60}).status_code == 200
    tried = operator.put(OF_ALL, {"for_s": 3600, "reason": "network is moved", "dry_run": True}).json()
    number = VO.objects.count()
    assert (tried["vos"], tried["own_pauses"], tried["changed"]) == (number, 1, number)
    assert operator.get(OF_ALL).json()["paused"] is False
    done = operator.put(OF_ALL, {"for_s": 3600, "reason": "network is moved"}).json()
    assert (done["paused"], done["reason"], done["changed"]) == (True, "network is moved", number)
    for vo in VO.objects.all():
        assert "network is moved" in vo.why_paused(now)
        assert "all_pause_reason: network is moved" in history_of(vo)
    assert administration.manager.get(ADDRESS).json()["reason"] == "storage is moved"
    assert administration.manager.delete(ADDRESS).status_code == 204
    assert "network is moved" in VO.objects.get(name="lhcb").why_paused(now)
    assert administration.manager.put(ADDRESS, PAUSE).status_code == 200
    assert operator.delete(OF_ALL).status_code == operator.delete(OF_ALL).status_code == 204
    assert operator.get(OF_ALL).json()["paused"] is False
    assert {vo.name for vo in VO.objects.all() if vo.why_paused(now)} == {"lhcb"}
    assert "storage is moved" in VO.objects.get(name="lhcb").why_paused(now)


def test_the_same_pause_of_all_again_is_not_recorded(administration: Administration) -> None:
    pause = {"until": (timezone.now() + timedelta(hours=1)).isoformat(), "reason": "network is moved"}
    assert administration.operator.put(OF_ALL, pause).json()["changed"] == VO.objects.count()
    recorded = len(changes_of())
    assert administration.operator.put(OF_ALL, pause).json()["changed"] == 0
    assert len(changes_of()) == recorded == VO.objects.count()


def test_only_operators_pause_all_vos(administration: Administration) -> None:
    for answer in (
        administration.manager.put(OF_ALL, PAUSE),
        administration.manager.delete(OF_ALL),
        administration.manager.get(OF_ALL),
    ):
        assert answer.status_code == 403
    assert administration.operator.put(OF_ALL, {"for_s": 60}).status_code == 400
    assert not VO.objects.exclude(all_paused_until=None).exists()
