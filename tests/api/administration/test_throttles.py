"""Throttles of sites over REST."""

from typing import Any

import pytest

from matching.services.throttles import advertise
from resources.domain.advertised_load import CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import of_classad, of_numbers
from resources.domain.enums import ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.services.throttles import COLUMNS
from tests.api.administration.conftest import Administration, changes_of
from tests.factories import make_job, make_throttled_site, make_vo

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/sites/busy.lhcb.org/throttle/"
SAID = {SUBMITTING: 2, GATHERING: 0, CURRENT: 9}
DEFAULTS = {
    "policy": "none",
    "when_expired": "count",
    "advertisement_s": 300,
    "requirements": "",
    "max_matches": None,
    "max_submitting_jobs": None,
    "max_submitting_and_output_gathering_jobs": None,
    "max_jobs": None,
}
CLOSED = "The throttle closes the site busy.lhcb.org at once."


def of(site: str) -> str:
    return f"/api/v1/sites/{site}/throttle/"


def stored() -> dict[str, object]:
    site = Site.objects.get(name="busy.lhcb.org")
    return {name: getattr(site, column) for name, column in COLUMNS.items()}


def test_a_manager_sees_settings_and_standing(administration: Administration) -> None:
    site = administration.own.throttle
    advertise(site.pk, of_numbers(SAID))
    ThrottleState.objects.update(matched=1)
    answer = administration.manager.get(ADDRESS)
    assert answer.status_code == 200
    settings = answer.json()
    now = settings.pop("now")
    maxima = dict.fromkeys([name for name in DEFAULTS if name.startswith("max_")], 5)
    assert settings == {"site": "busy.lhcb.org", **DEFAULTS, **maxima, "policy": "level0"}
    at, ends = now.pop("advertised_at"), now.pop("expires_at")
    assert at < ends
    assert now == {
        "accepting": True, "why_closed": "", "room_left": 2, "room": "2", "cur_matches": 3, "matched": 1,
    }  # fmt: skip
    ThrottleState.objects.update(matched=3)
    now = administration.manager.get(ADDRESS).json()["now"]
    assert (now["accepting"], now["room_left"]) == (False, 0)
    assert now["why_closed"] == "3 matches since the measurement, which left room for 3."


def test_a_site_without_a_throttle_has_no_standing(administration: Administration) -> None:
    assert administration.manager.get(of("lhcb.org")).json() == {"site": "lhcb.org", **DEFAULTS, "now": None}


def test_room_that_is_no_number_is_said_in_words(administration: Administration) -> None:
    now = administration.manager.get(ADDRESS).json()["now"]
    assert (now["room_left"], now["room"], now["expires_at"]) == (None, "counted at the next match", None)
    of_jobs = make_throttled_site(
        vos=[administration.own.vo], policy=ThrottlePolicy.CUSTOM, throttle_requirements="TARGET.CPUTime < 5"
    )
    advertise(of_jobs.pk, of_classad("CurMatches = 1"))
    assert administration.manager.get(of(of_jobs.name)).json()["now"]["room"] == "depends on the job"


def test_all_settings_are_set_and_apply_to_the_last_advertisement(administration: Administration) -> None:
    advertise(administration.own.throttle.pk, of_numbers(SAID))
    body = {"policy": "level2", "max_jobs": 20, "max_submitting_and_output_gathering_jobs": 9, "advertisement_s": 60}
    answer = administration.manager.put(ADDRESS, body)
    assert answer.status_code == 200, answer.json()
    assert answer.json() == administration.manager.get(ADDRESS).json()
    assert (answer.json()["now"]["room_left"], ThrottleState.objects.get().room) == (7, 7)
    assert stored() == {**DEFAULTS, **body}
    assert administration.manager.put(ADDRESS, body).status_code == 200  # changes nothing
    changes = {
        "throttle_policy": "level0 → level2",
        "throttle_advertisement_s": "300 → 60",
        "max_matches": "5 → none",
        "max_submitting_jobs": "5 → none",
        "max_submitting_and_output_gathering_jobs": "5 → 9",
        "max_jobs": "5 → 20",
    }
    assert changes_of() == [("mallory", "site busy.lhcb.org", changes)]


@pytest.mark.parametrize("policy", ["none", ""])
def test_a_throttle_is_removed(administration: Administration, policy: str) -> None:
    advertise(administration.own.throttle.pk, of_numbers(SAID))
    answer = administration.manager.put(ADDRESS, {"policy": policy})
    assert answer.json() == {"site": "busy.lhcb.org", **DEFAULTS, "now": None}
    assert not ThrottleState.objects.exists()
    assert stored() == {**DEFAULTS, "policy": ""}
    ((_, _, changes),) = changes_of()
    assert changes == {"throttle_policy": "level0 → none"} | {
        name: "5 → none" for name in DEFAULTS if name.startswith("max_")
    }


def test_a_throttle_that_closes_its_site_is_refused_until_it_is_confirmed(administration: Administration) -> None:
    make_job(owner=administration.own.member, group=administration.own.group, sites=["busy.lhcb.org"])
    advertise(administration.own.throttle.pk, of_numbers(SAID))
    body = {"policy": "level0", "max_submitting_jobs": 2}
    before = stored()
    answer = administration.manager.put(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (409, "confirmation_needed")
    assert answer.json()["errors"] == {"confirmed": [CLOSED]}
    assert "MaxSubmittingJobs is 2. 1 job waits that can run nowhere else." in answer.json()["detail"]
    assert (stored(), changes_of()) == (before, [])
    answer = administration.manager.put(ADDRESS, {**body, "confirmed": [CLOSED]})
    assert (answer.status_code, answer.json()["now"]["accepting"]) == (200, False)
    ((_, _, changes),) = changes_of()
    assert changes["confirmed"] == [f"+{CLOSED}"]


def test_an_unknown_name_in_an_expression_is_confirmed_only_where_it_is_evaluated(
    administration: Administration,
) -> None:
    body = {"policy": "custom", "requirements": " CPUTme < 3600 && CurMatches < 10\n"}
    answer = administration.manager.put(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (409, "confirmation_needed")
    (sentence,) = answer.json()["errors"]["confirmed"]
    assert 'Did you mean "CPUTime"?' in sentence
    answer = administration.manager.put(ADDRESS, {**body, "confirmed": [sentence]})
    assert answer.json()["requirements"] == "CPUTme < 3600 && CurMatches < 10"
    assert administration.manager.put(ADDRESS, {**body, "policy": "none"}).status_code == 200


def test_a_dry_run_answers_as_a_change_and_changes_nothing(administration: Administration) -> None:
    advertise(administration.own.throttle.pk, of_numbers(SAID))
    before, state = stored(), ThrottleState.objects.values().get()
    answer = administration.manager.put(ADDRESS, {"policy": "level0", "max_submitting_jobs": 9, "dry_run": True})
    assert (answer.status_code, answer.json()["now"]["room_left"]) == (200, 7)
    assert (stored(), ThrottleState.objects.values().get(), changes_of()) == (before, state, [])


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_input", "policy"),
        ({"policy": "level3"}, "invalid_input", "policy"),
        ({"policy": "level2", "max_jobs": 5}, "bad_throttle", "max_submitting_and_output_gathering_jobs"),
        ({"policy": "custom", "requirements": " "}, "bad_throttle", "requirements"),
        ({"policy": "custom", "requirements": "a b"}, "bad_throttle", "requirements"),
        ({"policy": "custom", "requirements": "false"}, "bad_throttle", "requirements"),
        ({"policy": "matches", "max_matches": -1}, "invalid_input", "max_matches"),
        ({"policy": "matches", "max_matches": 2**31}, "invalid_input", "max_matches"),
        ({"policy": "none", "advertisement_s": 0}, "invalid_input", "advertisement_s"),
        ({"policy": "none", "advertisement_s": None}, "invalid_input", "advertisement_s"),
        ({"policy": "none", "when_expired": "never"}, "invalid_input", "when_expired"),
        ({"policy": "none", "max_job": 5}, "invalid_input", "max_job"),
    ],
)
def test_what_is_wrong_is_said_by_field(
    administration: Administration, body: dict[str, Any], code: str, field: str
) -> None:
    before = stored()
    answer = administration.manager.put(ADDRESS, body)
    assert (answer.status_code, answer.json()["code"]) == (400, code), answer.json()
    assert [*answer.json()["errors"]] == [field]
    assert stored() == before


def test_a_shared_site_is_seen_by_its_managers_and_changed_by_operators(administration: Administration) -> None:
    body = {"policy": "matches", "max_matches": 7}
    for vos in ([], [administration.own.vo, make_vo()]):
        address = of(make_throttled_site(vos=vos).name)
        assert administration.manager.get(address).json()["policy"] == "level0"
        answer = administration.manager.put(address, body)
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
        assert "ask an operator" in answer.json()["detail"]
        assert administration.operator.put(address, body).json()["max_matches"] == 7
    foreign = of(administration.other.throttle.name)
    assert administration.manager.get(foreign).status_code == 404
    assert administration.manager.put(foreign, body).status_code == 404
