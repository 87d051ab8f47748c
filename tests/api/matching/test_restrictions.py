"""Throttles and limits in the answers of explain and preview (docs/architecture.md, Throttles and limits)."""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from rest_framework.test import APIClient

from matching.models import Match
from matching.services.throttles import advertise
from resources.domain.advertised_load import CUR_MATCHES, CURRENT, GATHERING, SUBMITTING
from resources.domain.advertisements import Advertisement, of_classad
from resources.models import ComputingElement, Site, ThrottleState
from resources.queries.throttles import ThrottleStanding, throttle_of
from taskqueues.models import Limit
from taskqueues.services import restrictions
from tests import factories
from tests.api.matching.conftest import ClientOf, SampleData
from tests.api.matching.test_explain import condition, explained
from tests.api.matching.test_preview import preview
from tests.cases import quick_cases
from tests.clock import pass_time, stop_clock
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now


@pytest.fixture
def manager(sample: SampleData, client_of: ClientOf) -> APIClient:
    return client_of(sample.mallory)


@pytest.fixture
def pilot(sample: SampleData, client_of: ClientOf) -> APIClient:
    return client_of(sample.pilot)


def of_alice(sample: SampleData, **description: Any) -> Job:
    return factories.make_job(group=sample.prod, owner=sample.alice, **description)


def throttle(**fields: Any) -> None:
    Site.objects.update(**fields)


def busy(submitting: int) -> None:
    numbers = {SUBMITTING: submitting, GATHERING: 0, CURRENT: submitting, CUR_MATCHES: 0}
    advertise(Site.objects.get().pk, Advertisement(numbers=numbers))


def matches(client: APIClient) -> int:
    body = {"cpu_time_s": 300_000, "request_id": str(uuid4())}
    return client.post("/api/v1/matches/", body, format="json").status_code


def left(said: dict[str, Any], name: str) -> int:
    (found,) = [each["left"] for each in said["conditions"] if each["name"] == name]
    return int(found)


def test_a_closed_throttle_is_shown(sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient) -> None:
    throttle(throttle_policy="level0", max_submitting_jobs=3)
    busy(3)
    job = of_alice(sample)
    why = (
        "the throttle of LCG.CERN.ch is closed: The site advertised CurrentSubmittingJobs = 3, which leaves no room: "
        "MaxSubmittingJobs is 3"
    )
    said = explained(alice, job)
    assert said["limits"] == [why]
    assert said["queues"] == [
        {"site": "LCG.CERN.ch", "ce": "ce01.cern.ch", "queue": "grid", "fits": False, "reasons": [why]}
    ]
    assert said["summary"] == f"It waits because the only queue that it fits accepts no jobs at present: {why}."
    assert condition(said, "throttle")[:2] == (0, 1)
    seen = preview(manager, site="LCG.CERN.ch")
    assert (seen["task_queues"], left(seen, "memory"), left(seen, "throttle")) == ([], 1, 0)
    assert matches(pilot) == 204
    sample.pilot.refresh_from_db()
    kept = sample.pilot.nothing_left or {}
    assert (kept["memory"], kept["throttle"]) == (1, 0)
    busy(2)
    said = explained(alice, job)
    assert (said["limits"], said["queues"][0]["fits"]) == ([], True)
    assert [queue["chance"] for queue in preview(manager, site="LCG.CERN.ch")["task_queues"]] == [1.0]
    assert matches(pilot) == 201


@pytest.mark.usefixtures("large_slot")
def test_a_throttle_counted_by_the_server_is_shown_as_counted(
    sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient
) -> None:
    throttle(throttle_policy="level0", max_submitting_jobs=1)
    job, other = of_alice(sample), of_alice(sample)
    assert explained(alice, job)["queues"][0]["fits"]
    assert matches(pilot) == 201
    waiting = Job.objects.get(status=JobStatus.WAITING)
    assert not explained(alice, waiting)["queues"][0]["fits"]
    assert preview(manager, site="LCG.CERN.ch")["task_queues"] == []
    assert matches(pilot) == 204
    Job.objects.filter(status=JobStatus.MATCHED).update(status=JobStatus.RUNNING)
    assert explained(alice, waiting)["queues"][0]["fits"]
    assert len(preview(manager, site="LCG.CERN.ch")["task_queues"]) == 1
    assert matches(pilot) == 201
    assert {job.pk, other.pk} == set(Match.objects.values_list("job", flat=True))


def test_an_expression_about_the_job_closes_some_queues(
    sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient
) -> None:
    throttle(throttle_policy="custom", throttle_requirements='CurMatches < 5 && TARGET.JobType != "Merge"')
    busy(0)
    merge, user = of_alice(sample, job_type="Merge", cpu_time_s=5000), of_alice(sample, cpu_time_s=500)
    why = "the throttle of LCG.CERN.ch does not accept such jobs now: its expression is not TRUE for their JobType"
    assert explained(alice, merge)["limits"] == [why]
    assert explained(alice, user)["limits"] == []
    seen = preview(manager, site="LCG.CERN.ch")
    assert [(queue["cpu_time_s"], queue["chance"]) for queue in seen["task_queues"]] == [(500, 1.0)]
    assert matches(pilot) == 201
    assert Match.objects.get().job == user
    assert matches(pilot) == 204
    sample.pilot.refresh_from_db()
    kept = sample.pilot.nothing_left or {}
    assert (kept["container"], kept["throttle"], kept["limit"]) == (1, 0, 0)


@pytest.mark.usefixtures("large_slot")
def test_a_full_limit_is_shown(sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient) -> None:
    Limit.objects.create(running=1, user=sample.alice, site=Site.objects.get())
    job = of_alice(sample)
    bobs = factories.make_job(group=sample.prod, owner=sample.bob, job_type="Merge")
    assert explained(alice, job)["limits"] == []
    Job.objects.filter(pk=of_alice(sample).pk).update(status=JobStatus.HELD)
    assert len(preview(manager, site="LCG.CERN.ch")["task_queues"]) == 2
    while not Match.objects.filter(job__owner=sample.alice).exists():
        assert matches(pilot) == 201
    why = "at most 1 job of the user alice at the site LCG.CERN.ch may run at a time, and 1 does"
    if not Match.objects.filter(job=bobs).exists():
        seen = preview(manager, site="LCG.CERN.ch")
        assert [(queue["owner"], queue["chance"]) for queue in seen["task_queues"]] == [("bob", 1.0)]
    waiting = of_alice(sample)
    said = explained(alice, waiting)
    assert said["limits"] == [why]
    assert said["summary"] == f"It waits because the only queue that it fits accepts no jobs at present: {why}."
    assert condition(said, "limit") == (0, 1, f"may be held back by limits; at present, {why}")


def test_a_delay_is_shown_with_its_time(sample: SampleData, alice: APIClient, pilot: APIClient) -> None:
    Limit.objects.create(delay_s=1000, vo=sample.vo)
    of_alice(sample)
    of_alice(sample)
    assert matches(pilot) == 201
    assert matches(pilot) == 204
    (why,) = explained(alice, Job.objects.get(status=JobStatus.WAITING))["limits"]
    assert re.fullmatch(r"jobs of the VO lhcb are matched every 1000 s, the next in (9\d\d|1000)\.\d s", why)


def test_a_used_up_cpu_time_quota_is_shown(sample: SampleData, alice: APIClient, pilot: APIClient) -> None:
    Limit.objects.create(cpu_s_per_day=100, group=sample.prod)
    of_alice(sample)
    of_alice(sample)
    assert matches(pilot) == 201
    Job.objects.filter(status=JobStatus.MATCHED).update(cpu_s=150)
    (why,) = explained(alice, Job.objects.get(status=JobStatus.WAITING))["limits"]
    assert why == "the jobs of the group lhcb_prod may use 100 s of CPU time in 24 hours, and have used 150 s"
    assert matches(pilot) == 204


def test_a_full_quota_refuses_a_whole_submission(sample: SampleData, alice: APIClient) -> None:
    Limit.objects.create(waiting=3, user=sample.alice)
    Limit.objects.create(waiting=1, group=sample.prod, job_type="Merge")

    def submit(*types: str) -> Any:
        jobs = [{"executable": "run.sh", "job_type": job_type} for job_type in types]
        return alice.post("/api/v1/jobs/", {"jobs": jobs}, format="json")

    assert submit("User", "User").status_code == 201
    refused = submit("User", "User")
    assert (refused.status_code, refused.json()["code"]) == (409, "quota_exceeded")
    assert refused.json()["detail"] == (
        "At most 3 jobs of the user alice may wait; 2 wait, and 2 would be added. "
        "Submit fewer, or wait until some have run."
    )
    assert Job.objects.count() == 2
    assert submit("Merge").status_code == 201
    assert submit("Merge").status_code == 409
    alice.post(f"/api/v1/jobs/{Job.objects.first().pk}/kill/")  # type: ignore[union-attr]
    assert submit("User").status_code == 201


def test_a_site_with_many_queues_is_evaluated_once(
    sample: SampleData, alice: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttle(throttle_policy="custom", throttle_requirements="CurMatches < 3 && TARGET.GPUs == 0")
    busy(0)
    job = of_alice(sample)
    asked: list[int] = []

    def counting(site: Site, state: ThrottleState | None, *, now: datetime) -> ThrottleStanding | None:
        asked.append(site.pk)
        return throttle_of(site, state, now=now)

    monkeypatch.setattr(restrictions, "throttle_of", counting)
    for number in range(5):
        factories.make_queue(ce=ComputingElement.objects.get(), name=f"more{number}", cpu_time_s=300_000)
    assert len(explained(alice, job)["queues"]) == 6
    assert len(asked) == 1


def test_an_expression_that_takes_too_long_closes_the_site(
    sample: SampleData, manager: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    throttle(throttle_policy="custom", throttle_requirements='CurMatches < 5 && TARGET.JobType != "Merge"')
    busy(0)
    of_alice(sample)
    assert len(preview(manager, site="LCG.CERN.ch")["task_queues"]) == 1
    monkeypatch.setattr(restrictions, "PATIENCE_S", -1.0)
    seen = preview(manager, site="LCG.CERN.ch")
    assert (seen["task_queues"], left(seen, "container"), left(seen, "throttle")) == ([], 1, 0)


POLICIES: dict[str, dict[str, Any]] = {
    "matches": {"throttle_policy": "matches", "max_matches": 9},
    "custom": {"throttle_policy": "custom", "throttle_requirements": "CurMatches < 9 && TARGET.GPUs == 0"},
    "level0": {"throttle_policy": "level0", "max_submitting_jobs": 9},
    "level1": {"throttle_policy": "level1", "max_submitting_and_output_gathering_jobs": 9},
    "level2": {"throttle_policy": "level2", "max_submitting_and_output_gathering_jobs": 9, "max_jobs": 9},
}
NUMBERS = "CurrentSubmittingJobs = 0; CurrentGatheringOutputJobs = 0; CurrentJobs = 0; CurMatches = 0"


@pytest.mark.parametrize("policy", quick_cases(POLICIES, quick=2))
@pytest.mark.parametrize(
    ("requirements", "why"),
    quick_cases(
        [
            ("false", "are FALSE"),
            ("Nowhere > 1", "are undefined: neither the advertisement nor jobs have Nowhere"),
            ("5", "are neither TRUE nor FALSE"),
            ("CurMatches > 1", "are FALSE at CurMatches 0"),
            (
                'TARGET.Onwer == "alice"',
                "are not TRUE, whatever the job is: neither the advertisement nor jobs have TARGET.Onwer",
            ),
            ("CurMatches > 0 && TARGET.GPUs == 0", "are not TRUE at CurMatches 0, whatever the job is"),
        ],
        quick=4,
    ),
)
def test_advertised_requirements_that_no_job_meets_close_the_site_under_every_policy(
    sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient, policy: str, requirements: str, why: str
) -> None:
    throttle(**POLICIES[policy])
    standing = advertise(Site.objects.get().pk, of_classad(f"{NUMBERS}; Requirements = {requirements}"))
    assert (standing.accepting, standing.room_left) == (False, 0)
    job = of_alice(sample)
    assert matches(pilot) == 204
    assert explained(alice, job)["limits"] == [
        f"the throttle of LCG.CERN.ch is closed: The Requirements that the site advertised {why}"
    ]
    assert preview(manager, site="LCG.CERN.ch")["task_queues"] == []


@pytest.mark.usefixtures("large_slot")
@pytest.mark.parametrize("policy", quick_cases(POLICIES, quick=2))
def test_advertised_requirements_about_the_job_hold_under_every_policy(
    sample: SampleData, alice: APIClient, manager: APIClient, pilot: APIClient, policy: str
) -> None:
    throttle(**POLICIES[policy])
    requirements = 'CurMatches < 2 && TARGET.JobType != "Merge"'
    assert advertise(Site.objects.get().pk, of_classad(f"{NUMBERS}; Requirements = {requirements}")).accepting
    merge = of_alice(sample, job_type="Merge", cpu_time_s=5000)
    for _ in range(3):
        of_alice(sample, cpu_time_s=500)
    looked_at = "GPUs and JobType" if policy == "custom" else "JobType"
    assert explained(alice, merge)["limits"] == [
        f"the throttle of LCG.CERN.ch does not accept such jobs now: its expression is not TRUE for their {looked_at}"
    ]
    assert [queue["cpu_time_s"] for queue in preview(manager, site="LCG.CERN.ch")["task_queues"]] == [500]
    assert [matches(pilot) for _ in range(3)] == [201, 201, 204]
    assert preview(manager, site="LCG.CERN.ch")["task_queues"] == []
    waiting = Job.objects.get(status=JobStatus.WAITING, job_type="User")
    assert explained(alice, waiting)["limits"] == [
        (
            "the throttle of LCG.CERN.ch is closed: The Requirements that the site advertised are not TRUE at "
            "CurMatches 2, whatever the job is"
        )
    ]


@pytest.mark.usefixtures("clock", "large_slot")
@pytest.mark.parametrize("of_the_job", ["", ' && JobType == "User"'])
def test_an_expression_about_the_time_opens_and_closes_without_an_advertisement(
    sample: SampleData, alice: APIClient, pilot: APIClient, of_the_job: str
) -> None:
    stop_clock()
    closes_at = int(database_now().timestamp()) + 100
    throttle(throttle_policy="custom", throttle_requirements=f"time() < {closes_at} && CurMatches < 5{of_the_job}")
    busy(0)
    jobs = [of_alice(sample, cpu_time_s=seconds) for seconds in (500, 500, 5000)]  # the last one comes first
    assert matches(pilot) == 201
    pass_time(seconds=200)
    assert matches(pilot) == 204
    sample.pilot.refresh_from_db()
    assert (sample.pilot.nothing_left or {})["throttle"] == 0
    (why,) = explained(alice, jobs[0])["limits"]
    whatever = ", whatever the job is" if of_the_job else ""
    at = f"{datetime.fromtimestamp(closes_at + 100, UTC):%Y-%m-%d %H:%M:%S} UTC"
    assert why == (
        f"the throttle of LCG.CERN.ch is closed: The site's expression is not TRUE at CurMatches 1, {at}{whatever}"
    )
    # Nothing of it is remembered.
    pass_time(seconds=-200)
    assert [matches(pilot) for _ in jobs] == [201, 201, 204]


def test_the_throttle_and_all_full_limits_are_shown(sample: SampleData, alice: APIClient) -> None:
    throttle(throttle_policy="level0", max_submitting_jobs=0)
    busy(0)
    site = Site.objects.get()
    Limit.objects.create(running=0, job_type="User", site=site, group=sample.prod)
    Limit.objects.create(cpu_s_per_day=0, user=sample.alice, vo=sample.vo)
    Limit.objects.create(running=0, user=sample.bob)
    Limit.objects.create(running=0, site=factories.make_site())
    said = explained(alice, of_alice(sample))
    assert said["limits"] == [
        (
            "the throttle of LCG.CERN.ch is closed: The site advertised CurrentSubmittingJobs = 0, which leaves no "
            "room: MaxSubmittingJobs is 0"
        ),
        "at most 0 jobs of the group lhcb_prod of the type User at the site LCG.CERN.ch may run at a time, and 0 do",
        "the jobs of the user alice of the VO lhcb may use 0 s of CPU time in 24 hours, and have used 0 s",
    ]
    assert said["queues"][0]["reasons"] == said["limits"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (
            {"throttle_policy": "level0", "max_submitting_jobs": 1, "throttle_when_expired": "closed"},
            "The site has never advertised, and it stays closed until an advertisement of it is accepted",
        ),
        (
            {"throttle_policy": "custom", "throttle_requirements": "CurMatches"},
            "The site's expression is not TRUE at CurMatches 0",
        ),
        (
            {"throttle_policy": "custom", "throttle_requirements": "Load < 1"},
            "The site's expression is not TRUE at CurMatches 0: neither the advertisement nor jobs have Load",
        ),
        (
            {"throttle_policy": "matches", "max_matches": 0},
            "MaxMatches is 0, which leaves no room for any match",
        ),
        (
            {"throttle_policy": "level1", "max_submitting_and_output_gathering_jobs": 0},
            (
                "The server counted CurrentSubmittingJobs = 0 and CurrentGatheringOutputJobs = 0, which leaves no "
                "room: MaxSubmittingAndOutputGatheringJobs is 0"
            ),
        ),
    ],
)
def test_a_site_without_advertisements_is_shown_as_a_match_would_count_it(
    sample: SampleData, alice: APIClient, pilot: APIClient, fields: dict[str, Any], why: str
) -> None:
    throttle(**fields)
    job = of_alice(sample)
    assert explained(alice, job)["limits"] == [f"the throttle of LCG.CERN.ch is closed: {why}"]
    assert matches(pilot) == 204
    assert explained(alice, job)["limits"] == [f"the throttle of LCG.CERN.ch is closed: {why}"]
    sample.pilot.refresh_from_db()
    assert (sample.pilot.nothing_left or {})["throttle"] == 0


def test_the_headline_names_the_limit_that_closes_all_queues_not_the_throttle_of_one(
    sample: SampleData, alice: APIClient
) -> None:
    throttle(throttle_policy="level0", max_submitting_jobs=0)
    busy(0)
    for number in range(4):
        factories.make_queue(ce=factories.make_ce(site=factories.make_site(name=f"LCG.Site{number}", vos=[sample.vo])))
    limit = Limit.objects.create(running=0, user=sample.alice)
    job = of_alice(sample)
    full = "at most 0 jobs of the user alice may run at a time, and 0 do"
    assert explained(alice, job)["summary"] == (
        f"It waits because the 5 queues that it fits accept no jobs at present: {full}."
    )
    # No cause closes all of them: each is named with how many it closes, the one that closes most first.
    limit.delete()
    for name in ("LCG.Site1", "LCG.Site2", "LCG.Site3"):
        Site.objects.get(name=name).delete()
    banned = Site.objects.get(name="LCG.Site0")
    for _ in range(2):
        factories.make_queue(ce=factories.make_ce(site=banned))
    Site.objects.filter(pk=banned.pk).update(state="banned", state_reason="cooling")
    assert explained(alice, job)["summary"].startswith(
        "It waits because the 4 queues that it fits accept no jobs at present: at 3 of them, site LCG.Site0 is banned: "
        "cooling; at 1 of them, the throttle of LCG.CERN.ch is closed: "
    )
