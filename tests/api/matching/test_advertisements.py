"""POST /api/v1/sites/{name}/advertisements/: reports of sites, and the right to send them."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from matching.services import job_tokens
from resources.domain.enums import SiteTokenPurpose, ThrottlePolicy
from resources.models import Site, ThrottleState
from resources.services.site_tokens import issue_site_token, revoke_site_token
from tests import factories
from tests.api.matching.conftest import SampleData, bearer

SAID: Mapping[str, Any] = {"current_submitting_jobs": 2, "current_gathering_output_jobs": 1, "current_jobs": 40}


def site_of(sample: SampleData) -> Site:
    return Site.objects.get(name="LCG.CERN.ch")


@pytest.fixture
def site(sample: SampleData) -> Site:
    """Return a site whose throttle accepts five jobs in submission."""
    site = site_of(sample)
    site.throttle_policy, site.max_submitting_jobs = ThrottlePolicy.LEVEL0, 5
    site.save()
    return site


@pytest.fixture
def gateway(site: Site) -> APIClient:
    return bearer(issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=timezone.now()))


def advertise(client: APIClient, body: object, *, status: int = 200, site: str = "LCG.CERN.ch") -> Any:
    answer = client.post(f"/api/v1/sites/{site}/advertisements/", body, format="json")
    assert answer.status_code == status, answer.content
    return answer.json()


# ---- What is answered ------------------------------------------------------------------------------------------------


def test_the_answer_is_the_throttle_state(gateway: APIClient) -> None:
    answer = advertise(gateway, SAID)
    assert set(answer) == {"policy", "cur_matches", "accepting", "expires_at"}
    assert (answer["policy"], answer["cur_matches"], answer["accepting"]) == ("level0", 2, True)
    left = datetime.fromisoformat(answer["expires_at"]) - timezone.now()
    assert timedelta(seconds=890) < left <= timedelta(seconds=900)
    assert not advertise(gateway, {**SAID, "current_submitting_jobs": 5})["accepting"]


def test_a_sequence_not_above_the_last_is_ignored(gateway: APIClient) -> None:
    first = advertise(gateway, {**SAID, "sequence": 2**63 - 1})
    second = advertise(gateway, {**SAID, "current_submitting_jobs": 5, "sequence": 7})
    assert second["why_ignored"].startswith(f"Its sequence 7 is not above {2**63 - 1}")
    # What the throttle is, and beside it what is wrong.
    assert second == {
        **first,
        "ignored": True,
        "why_ignored": second["why_ignored"],
        "last_sequence": 2**63 - 1,
        "sequence_forgotten_at": first["expires_at"],
    }
    assert "ignored" not in advertise(gateway, {**SAID, "sequence": 7, "gateway": "gate2.cern.ch"})


def test_advertisements_of_several_gateways_are_added(gateway: APIClient) -> None:
    assert advertise(gateway, {**SAID, "gateway": "gate1.cern.ch"})["cur_matches"] == 2
    assert advertise(gateway, {**SAID, "gateway": "gate2.cern.ch"})["cur_matches"] == 4
    text = "CurrentSubmittingJobs = 3\nWantAdReevaluate = TRUE"
    answer = advertise(gateway, {"classad": text, "gateway": "gate2.cern.ch"})
    assert (answer["cur_matches"], answer["accepting"]) == (5, False)
    for wrong in ("", "x" * 256, 7, None):
        refused = advertise(gateway, {**SAID, "gateway": wrong}, status=400)
        assert list(refused["errors"]) == ["gateway"]


def test_the_age_of_the_measurement_counts(gateway: APIClient) -> None:
    refused = advertise(gateway, {**SAID, "measured_s_ago": 900}, status=400)
    assert (refused["code"], list(refused["errors"])) == ("advertisement_expired", ["measured_s_ago"])
    answer = advertise(gateway, {**SAID, "measured_s_ago": 600.5})
    assert datetime.fromisoformat(answer["expires_at"]) < timezone.now() + timedelta(seconds=300)
    assert advertise(gateway, {**SAID, "measured_s_ago": 700})["ignored"]


def test_a_classad_is_read_by_the_attribute_names_of_sam(gateway: APIClient) -> None:
    text = """[
        CurrentSubmittingJobs = 1 + 3; CURRENTGATHERINGOUTPUTJOBS = 0; CurrentJobs = 7; MaxSubmittingJobs = 30;
        WantAdReevaluate = true; WantAdRevaluate = false; Name = "gateway"; Anything = TARGET.Owner;
    ]"""
    answer = advertise(gateway, {"classad": text})
    assert (answer["cur_matches"], answer["accepting"]) == (4, True)
    state = ThrottleState.objects.get()
    assert (state.classad, state.room, state.advertised["CurrentJobs"]) == (text, 1, 7)


def test_both_requirements_must_be_true(gateway: APIClient, site: Site) -> None:
    site.throttle_policy, site.throttle_requirements = ThrottlePolicy.CUSTOM, "CurMatches < 5 && Shelf > 10"
    site.save()
    for text, accepting in (
        ("CurMatches = 1; Shelf = 20", True),
        ("CurMatches = 1; Shelf = 20; Requirements = CurMatches < 1", False),
        ("CurMatches = 1; Shelf = 20; Requirements = MY.CurMatches < 2", True),
        ("CurMatches = 1; Shelf = 5", False),
        ("CurMatches = 1", False),
        ("CurMatches = 1; Shelf = 20; Requirements = 1", False),
        ("Shelf = 20", False),
    ):
        assert advertise(gateway, {"classad": text})["accepting"] is accepting, text
    assert advertise(gateway, {"classad": "Shelf = 20"})["cur_matches"] is None


def test_a_name_that_only_jobs_have_is_looked_up_in_each_job(gateway: APIClient, site: Site) -> None:
    site.throttle_policy, site.throttle_requirements = ThrottlePolicy.CUSTOM, "CurMatches < 5 && Disk > 10"
    site.save()
    for text, accepting in (("CurMatches = 1", True), ("CurMatches = 1; Disk = 5", False), ("CurMatches = 7", False)):
        assert advertise(gateway, {"classad": text})["accepting"] is accepting, text


def test_an_advertisement_without_a_throttle_is_answered_so(gateway: APIClient, site: Site) -> None:
    Site.objects.update(throttle_policy=ThrottlePolicy.NONE)
    expected = {"policy": "none", "cur_matches": None, "accepting": True, "expires_at": None}
    assert advertise(gateway, SAID) == expected
    assert not ThrottleState.objects.exists()


# ---- What is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "current_jobs"),
        ({"current_jobs": 1, "current_gathering_output_jobs": 0}, "current_submitting_jobs"),
        ({**SAID, "current_jobs": -1}, "current_jobs"),
        ({**SAID, "current_jobs": 1.5}, "current_jobs"),
        ({**SAID, "current_jobs": True}, "current_jobs"),
        ({**SAID, "current_jobs": "1"}, "current_jobs"),
        ({**SAID, "current_jobs": 2**31}, "current_jobs"),
        ({**SAID, "current_jobs": None}, "current_jobs"),
        ({**SAID, "sequence": -1}, "sequence"),
        ({**SAID, "sequence": 2**63}, None),
        ({**SAID, "measured_s_ago": -1}, "measured_s_ago"),
        ({**SAID, "measured_s_ago": 1e300}, "measured_s_ago"),
        ({**SAID, "max_job": 1}, "max_job"),
        ({**SAID, "classad": "CurrentJobs = 1"}, "current_jobs"),
        ({"classad": "CurrentJobs = 1", "cur_matches": 1}, "cur_matches"),
        ({"classad": ""}, "classad"),
        ({"classad": "CurrentJobs = "}, "classad"),
        ({"classad": "CurrentJobs = 1; currentjobs = 2"}, "classad"),
        ({"classad": "CurMatches = -1"}, "classad"),
        ({"classad": "CurMatches = 1.0"}, "classad"),
        ({"classad": "CurMatches = TARGET.Jobs"}, "classad"),
        ({"classad": "CurMatches = undefined"}, "classad"),
        ({"classad": "MaxJobs = true"}, "classad"),
        ({"classad": 'MaxJobs = "5"'}, "classad"),
        ({"classad": "MaxJobs = 2147483648"}, "classad"),
        ({"classad": "WantAdReevaluate = 1"}, "classad"),
        ({"classad": "WantAdRevaluate = maybe"}, "classad"),
        ({"classad": f'A = "{"é" * 40_000}"'}, "classad"),
        ({"classad": f"A = {'(' * 100}1{')' * 100}"}, "classad"),
    ],
)
def test_invalid_fields_are_refused_by_name(gateway: APIClient, body: object, field: str | None) -> None:
    advertise(gateway, {**SAID, "sequence": 1})
    before = list(ThrottleState.objects.values())
    refused = advertise(gateway, body, status=400)
    assert refused["detail"]
    assert field is None or field in refused["errors"], refused
    assert list(ThrottleState.objects.values()) == before


def test_a_wrong_classad_is_refused_with_its_position(gateway: APIClient) -> None:
    refused = advertise(gateway, {"classad": "CurrentJobs = 1;\nMaxJobs = many"}, status=400)
    assert refused["errors"]["classad"] == ["Line 2, column 1: MaxJobs must be a whole number from 0 to 2147483647."]


# ---- Who may ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caller", "status", "code"),
    [
        ("its gateway", 200, None),
        ("another gateway", 404, "not_found"),
        ("its registrar", 403, "forbidden"),
        ("another registrar", 403, "forbidden"),
        ("a revoked gateway", 401, "invalid_token"),
        ("alice", 403, "forbidden"),
        ("mallory", 403, "forbidden"),
        ("olga", 403, "forbidden"),
        ("a pilot", 403, "forbidden"),
        ("a job", 403, "forbidden"),
        ("nobody", 401, "not_authenticated"),
    ],
)
def test_access_rights_to_advertisements(
    sample: SampleData, site: Site, caller: str, status: int, code: str | None
) -> None:
    now, other = timezone.now(), factories.make_site(name="LCG.RAL.uk")
    match = factories.make_match(pilot=sample.pilot)
    tokens = {
        "its gateway": issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=now),
        "another gateway": issue_site_token(other, purpose=SiteTokenPurpose.ADVERTISE, now=now),
        "its registrar": issue_site_token(site, purpose=SiteTokenPurpose.REGISTER, now=now),
        "another registrar": issue_site_token(other, purpose=SiteTokenPurpose.REGISTER, now=now),
        "alice": factories.make_token(sample.alice),
        "mallory": factories.make_token(sample.mallory),
        "olga": factories.make_token(sample.olga),
        "a pilot": factories.make_pilot_token(sample.pilot),
        "a job": job_tokens.issue(match.pk, job_id=match.job_id, now=now),
    }
    revoked = issue_site_token(site, purpose=SiteTokenPurpose.ADVERTISE, now=now)
    revoke_site_token(token_id=site.tokens.latest("id").pk, now=now)
    client = {"nobody": APIClient(), "a revoked gateway": bearer(revoked)}.get(caller) or bearer(tokens[caller])

    answer = advertise(client, SAID, status=status)
    assert answer.get("code") == code
    assert ThrottleState.objects.exists() is (status == 200)


def test_a_gateway_token_does_not_disclose_other_sites(gateway: APIClient, site: Site) -> None:
    factories.make_site(name="LCG.RAL.uk")
    there = advertise(gateway, SAID, status=404, site="LCG.RAL.uk")
    assert there == advertise(gateway, SAID, status=404, site="nowhere")
    assert there["detail"] == "There is no such site for this token."


def test_an_advertisement_token_is_refused_elsewhere(gateway: APIClient) -> None:
    assert gateway.get("/api/v1/sites/").status_code == 403
    assert gateway.post("/api/v1/pilots/register/", {}, format="json").status_code == 403
    assert gateway.get("/api/v1/sites/LCG.CERN.ch/advertisements/").status_code == 405
