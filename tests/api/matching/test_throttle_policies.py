"""SAM's policies over HTTP: a configuration file, an advertisement, and leases until the answer is 204.

The arithmetic is tested in tests/unit/resources/test_throttles.py; here the whole path of the values is.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from matching.models import Match
from matching.queries.invariants import violations
from pilots.models import Pilot
from resources.domain.enums import SiteTokenPurpose
from resources.models import Site, ThrottleState
from resources.services.site_tokens import issue_site_token
from tests import factories
from tests.api.matching.conftest import SampleData, bearer, offer
from tests.api.matching.test_advertisements import advertise
from tests.cases import quick_cases
from tests.clock import pass_time, stop_clock
from wms.accounts.models import User
from wms.configuration.configure import configure
from wms.configuration.problems import ConfigurationError
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock", "large_slot")]

IDLE = {"current_submitting_jobs": 0, "current_gathering_output_jobs": 0, "current_jobs": 0}
HUGE = 2**31 - 1
JOBS = 8


@pytest.fixture
def gateway(sample: SampleData) -> APIClient:
    return bearer(issue_site_token(sample.queue.ce.site, purpose=SiteTokenPurpose.ADVERTISE, now=timezone.now()))


@pytest.fixture
def jobs(sample: SampleData) -> list[Job]:
    return [factories.make_job(group=sample.prod, owner=sample.alice) for _ in range(JOBS)]


def throttle(written: str) -> None:
    """Give the site this throttle, as the configuration file stores it."""
    source = f"sites: [{{name: LCG.CERN.ch, throttle: {{{written}}}}}]".encode()
    configure(source, environ={}, now=timezone.now(), confirmed=True)


def leases(pilot: APIClient) -> int:
    """Match until there is no more job; return the number of leases."""
    given = 0
    while (status := pilot.post("/api/v1/matches/", offer(), format="json").status_code) != 204:
        assert status == 201
        given += 1
    assert list(violations()) == []
    return given


LEVEL1 = "policy: level1, max_submitting_and_output_gathering_jobs"
LEVEL2 = "policy: level2, max_submitting_and_output_gathering_jobs"


#: Throttle, what the site says, and the number of jobs that it then gets: first one of each rule of each policy.
ADMITTED = [
    ("policy: matches, max_matches: 3", IDLE, 3),
    ("policy: matches, max_matches: 2147483647", {**IDLE, "cur_matches": HUGE}, JOBS),
    ("policy: level0, max_submitting_jobs: 3", IDLE, 3),
    ("policy: level0, max_submitting_jobs: 2147483647", {**IDLE, "current_submitting_jobs": HUGE - 2}, 2),
    # Only the maximum of the own policy counts.
    ("policy: level0, max_submitting_jobs: 3", {**IDLE, "max_jobs": 0, "max_matches": 0}, 3),
    (f"{LEVEL1}: 6", {**IDLE, "current_submitting_jobs": 2, "current_gathering_output_jobs": 1}, 3),
    (f"{LEVEL1}: 6", {**IDLE, "max_submitting_and_output_gathering_jobs": 0}, 0),
    (
        f"{LEVEL2}: 5, max_jobs: 41",
        {"current_submitting_jobs": 2, "current_gathering_output_jobs": 1, "current_jobs": 40},
        1,
    ),
    (f"{LEVEL2}: 5, max_jobs: 41", {**IDLE, "current_jobs": 30, "max_jobs": 32}, 2),
    # More in two states than in all: what the site says is taken as it is.
    (f"{LEVEL2}: 5, max_jobs: 9", {**IDLE, "current_submitting_jobs": 4}, 1),
    ("policy: custom, requirements: CurMatches < 4", IDLE, 4),
    ("policy: custom, requirements: CurMatches < 4", {"classad": "CurrentJobs = 1"}, 0),
    ("policy: custom, requirements: CurMatches < MaxJobs, max_jobs: 2", {**IDLE, "max_jobs": 1}, 1),
    ('policy: custom, requirements: "CurMatches - 2"', IDLE, 0),
    ('policy: custom, requirements: "TARGET.CPUTime > 500 && CurMatches < 3"', IDLE, 3),
    ('policy: custom, requirements: "CPUTime > 3600 && CurMatches < 3"', IDLE, 3),
    ("policy: custom, requirements: 'regexp(\"^al\", Owner) && time() > 0 && CurMatches < 2'", IDLE, 2),
    ("policy: matches, max_matches: 0", IDLE, 0),
    ("policy: matches, max_matches: 3", {**IDLE, "max_matches": 2}, 2),
    ("policy: matches, max_matches: 3", {**IDLE, "max_matches": HUGE}, 3),
    ("policy: level0, max_submitting_jobs: 3", {**IDLE, "current_submitting_jobs": HUGE}, 0),
    ("policy: level0, max_submitting_jobs: 3", {**IDLE, "current_jobs": 99}, 3),
    (f"{LEVEL1}: 6", {**IDLE, "current_submitting_jobs": HUGE, "current_gathering_output_jobs": HUGE}, 0),
    (f"{LEVEL2}: 5, max_jobs: 41", {**IDLE, "current_jobs": 40, "max_jobs": 100}, 1),
    (f"{LEVEL2}: 5, max_jobs: 0", IDLE, 0),
    ("policy: custom, requirements: CurMatches < 4", {**IDLE, "cur_matches": 3}, 1),
    ("policy: custom, requirements: CurMatches < MaxJobs, max_jobs: 2", IDLE, 2),
    ("policy: custom, requirements: CurMatches < MaxJobs", IDLE, 0),
    ('policy: custom, requirements: "undefined || CurMatches < 2"', IDLE, 2),
    ('policy: custom, requirements: "CurMatches != 1"', IDLE, 1),
    ('policy: custom, requirements: "Requirements"', {"classad": "CurMatches = 0; Requirements = Requirements"}, 0),
    ('policy: custom, requirements: "Load < 1"', {"classad": "CurMatches = 0; Load = Load + 0"}, 0),
    (
        'policy: custom, requirements: "A && CurMatches < 3"',
        {"classad": "CurMatches = 0; A = B; B = C; C = true"},
        3,
    ),
    ('policy: custom, requirements: "TARGET.Owner == \\"ALICE\\" && CurMatches < 3"', IDLE, 3),
    ('policy: custom, requirements: "TARGET.CurMatches < 3"', IDLE, 0),
    ('policy: custom, requirements: "TARGET.NoSuchThing =?= undefined && CurMatches < 2"', IDLE, 2),
]


@pytest.mark.parametrize(("written", "said", "expected"), quick_cases(ADMITTED, quick=6))
def test_a_throttle_admits_its_number_of_jobs(
    sample: SampleData,
    gateway: APIClient,
    pilot: APIClient,
    jobs: list[Job],
    written: str,
    said: dict[str, Any],
    expected: int,
) -> None:
    throttle(written)
    advertise(gateway, said)
    assert leases(pilot) == expected
    assert ThrottleState.objects.get().matched == expected


@pytest.mark.parametrize("expression", ["error || true", '"true"'])
def test_an_expression_that_is_never_true_is_refused_and_closes_where_it_was_stored_before(
    sample: SampleData, gateway: APIClient, pilot: APIClient, jobs: list[Job], expression: str
) -> None:
    with pytest.raises(ConfigurationError, match="TRUE for no advertisement"):
        throttle(f"policy: custom, requirements: {json.dumps(expression)}")
    throttle("policy: custom, requirements: CurMatches < 4")
    Site.objects.update(throttle_requirements=expression)
    advertise(gateway, IDLE)
    assert leases(pilot) == 0


NUMBERS = {"current_submitting_jobs": 2, "current_gathering_output_jobs": 1, "current_jobs": 7, "max_jobs": 9}
CLASSAD = "[ CurrentSubmittingJobs = 2; CurrentGatheringOutputJobs = 1; CurrentJobs = 7; MaxJobs = 9; CurMatches = 0 ]"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("policy: matches, max_matches: 3", 3),
        ("policy: level0, max_submitting_jobs: 3", 1),
        (f"{LEVEL1}: 5", 2),
        (f"{LEVEL2}: 20, max_jobs: 10", 2),
        ("policy: custom, requirements: CurMatches + CurrentJobs < MaxJobs", 2),
    ],
)
def test_equal_numbers_and_classads_leave_the_same_room(
    gateway: APIClient, pilot: APIClient, jobs: list[Job], written: str, expected: int
) -> None:
    throttle(written)
    advertise(gateway, NUMBERS)
    assert leases(pilot) == expected
    pass_time(seconds=1)
    advertise(gateway, {"classad": CLASSAD})
    assert leases(pilot) == expected


def test_leases_of_one_request_count_one_each_whatever_their_processors(
    sample: SampleData, gateway: APIClient, client_of: Callable[[User | Pilot], APIClient]
) -> None:
    for _ in range(5):
        factories.make_job(group=sample.prod, owner=sample.alice, processors=2)
    throttle("policy: level0, max_submitting_jobs: 3")
    advertise(gateway, IDLE)
    answer = client_of(sample.pilot).post("/api/v1/matches/", offer(processors=10, max_jobs=5), format="json")
    assert len(answer.json()["leases"]) == 3
    assert ThrottleState.objects.get().matched == 3


@pytest.mark.parametrize(("when_expired", "expected"), [("count", 2), ("closed", 0)])
def test_an_advertisement_holds_for_three_cycles(
    gateway: APIClient, pilot: APIClient, jobs: list[Job], when_expired: str, expected: int
) -> None:
    stop_clock()
    throttle(f"policy: level0, max_submitting_jobs: 3, advertisement_s: 60, when_expired: {when_expired}")
    expires_at = advertise(gateway, {**IDLE, "current_submitting_jobs": 2})["expires_at"]
    measured_at = ThrottleState.objects.get().measured_at
    assert (datetime.fromisoformat(expires_at) - measured_at).total_seconds() == 180
    assert leases(pilot) == 1
    pass_time(seconds=179)
    assert leases(pilot) == 0
    pass_time(seconds=2)
    # The job of before is Matched still: the server counts it.
    assert leases(pilot) == expected
    assert Match.objects.count() == 1 + expected


@pytest.mark.parametrize("when_expired", ["count", "closed"])
def test_advertisements_after_an_outage_are_used_again(
    gateway: APIClient, pilot: APIClient, jobs: list[Job], when_expired: str
) -> None:
    throttle(f"policy: matches, max_matches: 1, when_expired: {when_expired}")
    advertise(gateway, {**IDLE, "sequence": 8})
    assert leases(pilot) == 1
    pass_time(seconds=1000)
    leases(pilot)
    # Its sequence of before is forgotten: a gateway whose clock was once ahead is not locked out.
    assert "ignored" not in advertise(gateway, {**IDLE, "sequence": 7})
    assert advertise(gateway, {**IDLE, "sequence": 7})["ignored"]
    assert "ignored" not in advertise(gateway, {**IDLE, "sequence": 8})
    pass_time(seconds=1)
    assert leases(pilot) == 1


def test_matches_younger_than_the_measurement_are_not_forgotten(
    gateway: APIClient, pilot: APIClient, jobs: list[Job]
) -> None:
    throttle("policy: level0, max_submitting_jobs: 5")
    advertise(gateway, {**IDLE, "current_submitting_jobs": 3})
    assert leases(pilot) == 2
    pass_time(seconds=30)
    # Measured before those two, and sent late.
    assert advertise(gateway, {**IDLE, "measured_s_ago": 60, "sequence": 1})["ignored"]
    assert advertise(gateway, {**IDLE, "measured_s_ago": 29})["cur_matches"] == 0
    assert leases(pilot) == 5
    pass_time(seconds=10)
    assert advertise(gateway, {**IDLE, "current_submitting_jobs": 1, "measured_s_ago": 20})["cur_matches"] == 6
    assert leases(pilot) == 0


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "-0.001"])
def test_an_invalid_age_is_refused(gateway: APIClient, number: str) -> None:
    throttle("policy: level0, max_submitting_jobs: 5")
    body = '{"current_submitting_jobs": 0, "current_gathering_output_jobs": 0, "current_jobs": 0, "measured_s_ago": %s}'
    answer = gateway.post("/api/v1/sites/LCG.CERN.ch/advertisements/", body % number, content_type="application/json")
    assert answer.status_code == 400, answer.content
    assert answer.json()["detail"]
    assert not ThrottleState.objects.exists()


def test_a_throttle_that_is_made_changed_and_removed_while_jobs_run_holds_at_once(
    sample: SampleData, gateway: APIClient, pilot: APIClient, jobs: list[Job]
) -> None:
    assert pilot.post("/api/v1/matches/", offer(), format="json").status_code == 201
    throttle("policy: level0, max_submitting_jobs: 3")
    assert leases(pilot) == 2  # one is Matched already, as the server counts
    throttle("policy: level0, max_submitting_jobs: 1")
    assert leases(pilot) == 0
    throttle(f"{LEVEL2}: 5, max_jobs: 4")
    assert leases(pilot) == 1
    Job.objects.filter(status=JobStatus.MATCHED).update(status=JobStatus.RUNNING)
    throttle("policy: custom, requirements: CurMatches + CurrentSubmittingJobs < 1")
    assert leases(pilot) == 0  # of what was counted before
    advertise(gateway, IDLE)
    assert leases(pilot) == 1
    configure(b"sites: [{name: LCG.CERN.ch, throttle: null}]", environ={}, now=timezone.now())
    assert leases(pilot) == JOBS - 5
    assert not ThrottleState.objects.exists()
    assert not Site.objects.exclude(throttle_policy="").exists()
