"""States of sites, computing elements and queues over REST."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from resources.models import Site
from tests.api.administration.conftest import Administration, changes_of, history_of
from tests.factories import make_ce, make_job, make_site

pytestmark = pytest.mark.django_db

BAN = {"state": "banned", "reason": "storage is moved"}


def addresses(administration: Administration) -> list[str]:
    own = administration.own
    of_site = f"/api/v1/sites/{own.site.name}"
    of_ce = f"{of_site}/ces/{own.ce.name}"
    return [f"{of_site}/state/", f"{of_ce}/state/", f"{of_ce}/queues/{own.queue.name}/state/"]


@pytest.mark.parametrize(
    ("level", "place"),
    [
        (0, "site lhcb.org"),
        (1, "computing element ce.lhcb.org at site lhcb.org"),
        (2, "queue lhcb_queue of computing element ce.lhcb.org at site lhcb.org"),
    ],
)
def test_a_manager_bans_each_level_until_a_time(administration: Administration, level: int, place: str) -> None:
    until = (timezone.now() + timedelta(hours=2)).replace(microsecond=0)
    answer = administration.manager.put(addresses(administration)[level], {**BAN, "until": until.isoformat()})
    assert answer.status_code == 200, answer.json()
    ends = until.astimezone(UTC).isoformat().replace("+00:00", "Z")
    consequence = answer.json()["consequence"]
    assert consequence.startswith(f"No further job starts at {place}. ")
    expected = {"place": place, "state": "banned", "reason": "storage is moved", "until": ends}
    assert answer.json() == {**expected, "consequence": consequence}
    row = (administration.own.site, administration.own.ce, administration.own.queue)[level]
    row.refresh_from_db()
    assert (row.state, row.state_reason, row.state_until) == ("banned", "storage is moved", until)
    assert row.state_changed_by == administration.mallory
    assert {"state: active → banned", "reason: storage is moved"} <= {*history_of(row)}
    again = administration.manager.put(addresses(administration)[level], {**BAN, "until": until.isoformat()})
    assert again.json() == answer.json()
    ((who, target, changes),) = changes_of("resource.state_changed")
    assert (who, target, changes["state"]) == ("mallory", place, "active → banned")


def test_the_end_may_be_a_duration_and_the_state_ends_by_active(administration: Administration) -> None:
    address, site = addresses(administration)[0], administration.own.site
    before = datetime.now(tz=UTC)
    assert administration.manager.put(address, {"state": "draining", "reason": "x", "for_s": 3600}).status_code == 200
    site.refresh_from_db()
    assert site.state_until is not None
    assert timedelta(minutes=55) < site.state_until - before < timedelta(minutes=65)
    assert administration.manager.put(address, {"state": "active"}).json()["state"] == "active"
    site.refresh_from_db()
    assert (site.state, site.state_reason) == ("active", "")
    assert site.state_until is None


def test_a_dry_run_answers_as_a_change_and_changes_nothing(administration: Administration) -> None:
    answer = administration.manager.put(addresses(administration)[0], {**BAN, "dry_run": True})
    assert (answer.status_code, answer.json()["state"]) == (200, "banned")
    assert Site.objects.get(pk=administration.own.site.pk).state == "active"
    assert changes_of("resource.state_changed") == []
    assert "state: active → banned" not in history_of(administration.own.site)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"state": "banned"}, "bad_state", "reason"),
        ({**BAN, "reason": "one\ntwo"}, "invalid_input", "reason"),
        ({"state": "closed", "reason": "x"}, "invalid_input", "state"),
        ({**BAN, "until": "2026-01-01T00:00:00Z"}, "bad_state", "until"),
        ({**BAN, "until": "2036-01-01T00:00:00"}, "invalid_input", "until"),
        ({**BAN, "until": 5}, "invalid_input", "until"),
        ({**BAN, "until": None}, "invalid_input", "until"),
        ({**BAN, "until": "2036-01-01T00:00:00Z", "for_s": 60}, "invalid_input", "for_s"),
        ({**BAN, "for_s": 10**10}, "invalid_input", "for_s"),
        ({**BAN, "until": "9999-12-31T00:00:00Z"}, "invalid_input", "until"),
        ({**BAN, "untill": "2036-01-01T00:00:00Z"}, "invalid_input", "untill"),
        ({**BAN, "dry_run": "no"}, "invalid_input", "dry_run"),
        ({"state": "active", "for_s": 60}, "bad_state", "until"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    administration: Administration, body: dict[str, Any], code: str, field: str
) -> None:
    answer = administration.manager.put(addresses(administration)[0], body)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert [*answer.json()["errors"]] == [field]
    assert Site.objects.get(pk=administration.own.site.pk).state == "active"


def test_a_shared_site_is_for_operators(administration: Administration) -> None:
    shared = make_site(name="shared.org", vos=[administration.own.vo, administration.other.vo])
    ce = make_ce(name="ce.shared.org", site=shared)
    for address in (f"/api/v1/sites/{shared.name}/state/", f"/api/v1/sites/{shared.name}/ces/{ce.name}/state/"):
        answer = administration.manager.put(address, BAN)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "ask an operator" in answer.json()["detail"]
        assert administration.operator.put(address, BAN).status_code == 200


def test_a_dry_run_says_how_many_jobs_run_there_and_wait_for_the_place_alone(administration: Administration) -> None:
    own = administration.own
    make_job(owner=own.member, group=own.group, sites=["lhcb.org"])
    make_job(owner=own.member, group=own.group, sites=["lhcb.org", "cern.ch"])
    make_job(owner=own.member, group=own.group, grid_ces=["ce.lhcb.org"])
    of_site, of_ce, of_queue = (
        administration.manager.put(address, {**BAN, "dry_run": True}).json()["consequence"]
        for address in addresses(administration)
    )
    assert "1 job waits that can run nowhere else." in of_site
    # The only queue of the only CE of the site.
    assert of_ce.endswith("1 job runs there; 2 jobs wait that can run nowhere else.")
    assert of_queue.endswith("1 job runs there; 2 jobs wait that can run nowhere else.")
    make_ce(name="second", site=own.site)
    answer = administration.manager.put(addresses(administration)[1], {**BAN, "dry_run": True}).json()
    assert answer["consequence"].endswith("1 job runs there; 1 job waits that can run nowhere else.")
    assert administration.manager.put(addresses(administration)[0], {"state": "active"}).json()["consequence"] == ""
    own.site.refresh_from_db()
    assert own.site.state == "active"
