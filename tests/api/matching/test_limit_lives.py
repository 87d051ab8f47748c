"""Limits over HTTP, while jobs run and end and the limits change: events that free room, and events that do not."""

from collections.abc import Callable
from itertools import combinations, product
from random import Random
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from matching.models import Match
from matching.queries.invariants import violations
from matching.services import limits
from matching.services.expiry import expire_leases
from pilots.domain.pilot import PilotStatus
from pilots.models import Pilot
from pilots.services.reports import end_pilot
from taskqueues.models import Limit, TaskQueue
from taskqueues.queries import limit_standings
from taskqueues.services import priorities
from tests import factories
from tests.api.matching.conftest import SampleData, bearer, offer
from tests.api.matching.test_explain import explained, of_alice
from tests.cases import quick_cases
from tests.clock import pass_time, stop_clock
from wms.configuration.configure import configure
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job
from wms.kernel.db import database_now

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clock", "large_slot")]


def limit(written: str) -> None:
    """Set exactly these limits, as the configuration file stores them."""
    configure(f"limits: [{written}]".encode(), environ={}, now=timezone.now(), confirmed=True)


def lease(pilot: APIClient) -> dict[str, Any] | None:
    answer = pilot.post("/api/v1/matches/", offer(), format="json")
    assert answer.status_code in {201, 204}, answer.content
    said: dict[str, Any] | None = answer.json() if answer.status_code == 201 else None
    return said


def leases(pilot: APIClient) -> list[dict[str, Any]]:
    """Match until there is no more job; return the leases."""
    found: list[dict[str, Any]] = []
    while (one := lease(pilot)) is not None:
        found.append(one)
    assert list(violations()) == []
    return found


def on(said: dict[str, Any], what: str, body: dict[str, Any]) -> None:
    """Send *body* to the address *what* of the lease, with its token, and assert that it is accepted."""
    answer = bearer(said["token"]).post(f"/api/v1/matches/{said['match_id']}/{what}/", body, format="json")
    assert answer.status_code == 200, answer.content


def finish(said: dict[str, Any], exit_code: int | None, *, cpu_s: float = 1.0) -> None:
    on(said, "finish", {"exit_code": exit_code, "usage": {"cpu_s": cpu_s, "wall_s": 2}})


def beat(said: dict[str, Any], *, cpu_s: float) -> None:
    on(said, "heartbeat", {"cpu_s": cpu_s, "wall_s": 1, "memory_mb": 1, "disk_mb": 1, "acknowledged": []})


# ---- Jobs that end ---------------------------------------------------------------------------------------------------


def user_does(*actions: str) -> Callable[[APIClient, dict[str, Any]], None]:
    def does(alice: APIClient, said: dict[str, Any]) -> None:
        for action in actions:
            answer = alice.post(f"/api/v1/jobs/{said['job']['id']}/{action}/")
            assert answer.status_code == 200, answer.content

    return does


def goes_silent(_alice: APIClient, said: dict[str, Any]) -> None:
    expire_leases()
    pass_time(seconds=20)
    for _ in range(200):
        if Match.objects.get(pk=said["match_id"]).ended_at is not None:
            return
        pass_time(seconds=50)  # in steps: a longer gap would be an outage of the expirer
        expire_leases()
    pytest.fail("the lease never ended")


def pilot_is_lost(_alice: APIClient, _said: dict[str, Any]) -> None:
    end_pilot(Pilot.objects.get().pk, status=PilotStatus.FAILED, reason="the node died", now=timezone.now())
    expire_leases()


WAYS: dict[str, Callable[[APIClient, dict[str, Any]], None]] = {
    "Done": lambda _alice, said: finish(said, 0),
    "Failed": lambda _alice, said: finish(said, 1),
    "no exit code": lambda _alice, said: finish(said, None),
    "rescheduled by its payload": lambda _alice, said: finish(said, 222),
    "killed": user_does("kill"),
    "killed and deleted": user_does("kill", "delete"),
    "rescheduled by its owner": user_does("reschedule"),
    "silent until its lease expired": goes_silent,
    "its pilot ended": pilot_is_lost,
}


@pytest.mark.parametrize("begun", quick_cases(["Running", "Matched", "Completing"], quick=1))
@pytest.mark.parametrize("way", WAYS)
def test_a_job_frees_its_limit_once_however_it_ends(
    sample: SampleData, alice: APIClient, pilot: APIClient, way: str, begun: str
) -> None:
    for _ in range(4):
        of_alice(sample)
    site = "site: LCG.CERN.ch"
    limit(
        "{scope: {user: alice}, running: 1}, {scope: {vo: lhcb}, running: 2},"
        f"{{scope: {{{site}, job_type: User}}, running: 1}}, {{scope: {{group: lhcb_prod}}, cpu_s_per_day: 1000}}"
    )
    (held,) = leases(pilot)
    if begun != "Matched":
        on(held, "status", {"status": begun})
        beat(held, cpu_s=3.0)
    WAYS[way](alice, held)
    job = Job.objects.get(pk=held["job"]["id"])
    assert job.status not in {JobStatus.MATCHED, JobStatus.RUNNING, JobStatus.COMPLETING, JobStatus.STALLED}
    assert list(violations()) == []
    assert [standing.bounds.held for standing in limit_standings() if standing.bounds.running is not None] == [0] * 3
    other = bearer(factories.make_pilot_token(factories.make_pilot(vo=sample.vo, queue=sample.queue)))
    assert len(leases(other)) == 1
    limits.sum_up()
    assert lease(other) is None
    assert list(violations()) == []


def test_a_stalled_and_revived_job_counts_once_in_its_limit(sample: SampleData, pilot: APIClient) -> None:
    for _ in range(3):
        of_alice(sample)
    limit("{scope: {user: alice}, running: 1}")
    (held,) = leases(pilot)
    on(held, "status", {"status": "Running"})
    Job.objects.filter(pk=held["job"]["id"]).update(status=JobStatus.STALLED)
    assert leases(pilot) == []
    beat(held, cpu_s=1.0)
    assert Job.objects.get(pk=held["job"]["id"]).status == JobStatus.RUNNING
    assert leases(pilot) == []
    finish(held, 0)
    finish(held, 0)  # its answer was lost
    assert len(leases(pilot)) == 1


# ---- Limits that change ----------------------------------------------------------------------------------------------


def one_that_waits() -> Job:
    """Return one of the jobs that no pilot has been given."""
    return Job.objects.filter(status=JobStatus.WAITING).latest("pk")


def test_a_limit_is_lowered_raised_removed_and_made_again_while_jobs_run(
    sample: SampleData, alice: APIClient, pilot: APIClient
) -> None:
    for _ in range(12):
        of_alice(sample)
    scope = "scope: {user: alice}"
    limit(f"{{{scope}, running: 4}}")
    held = leases(pilot)
    assert len(held) == 4
    limit(f"{{{scope}, running: 2}}")
    why = "at most 2 jobs of the user alice may run at a time, and 4 do"
    assert explained(alice, one_that_waits())["limits"] == [why]
    for done in held[:2]:  # nothing is taken from those that run, and the first that end make no room
        finish(done, 0)
        assert leases(pilot) == []
    finish(held[2], 0)
    assert len(leases(pilot)) == 1
    limit(f"{{{scope}, running: 5}}")
    assert len(leases(pilot)) == 3
    limit(f"{{{scope}, running: 0}}")
    assert leases(pilot) == []
    why = "at most 0 jobs of the user alice may run at a time, and 5 do"
    assert explained(alice, one_that_waits())["limits"] == [why]
    limit("")
    assert explained(alice, one_that_waits())["limits"] == []
    assert lease(pilot) is not None
    limit(f"{{{scope}, running: 7}}")
    assert len(leases(pilot)) == 1
    assert [standing.bounds.held for standing in limit_standings()] == [7]


def test_a_quota_of_zero_refuses_every_job(sample: SampleData, alice: APIClient, pilot: APIClient) -> None:
    job = of_alice(sample)
    limit("{scope: {user: alice}, cpu_s_per_day: 0}, {scope: {user: alice}, waiting: 0}")
    assert leases(pilot) == []
    assert explained(alice, job)["limits"] == [
        "the jobs of the user alice may use 0 s of CPU time in 24 hours, and have used 0 s"
    ]
    answer = alice.post("/api/v1/jobs/", {"executable": "run.sh"}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (409, "quota_exceeded")
    assert Job.objects.count() == 1
    assert alice.post(f"/api/v1/jobs/{job.pk}/hold/").status_code == 200
    assert alice.post(f"/api/v1/jobs/{job.pk}/release/").status_code == 200  # what waited may wait again


# ---- Time ------------------------------------------------------------------------------------------------------------


def test_cpu_time_quotas_cover_the_last_day_across_midnight(sample: SampleData, pilot: APIClient) -> None:
    for _ in range(8):
        of_alice(sample)
    limit("{scope: {group: lhcb_prod}, cpu_s_per_day: 100}")
    now = database_now()
    pass_time(seconds=(now.replace(hour=23, minute=59, second=0, microsecond=0) - now).total_seconds() % 86_400)
    first = lease(pilot)
    assert first is not None
    beat(first, cpu_s=60.0)
    second = lease(pilot)
    assert second is not None
    pass_time(seconds=120)  # another day, and it counts still
    finish(first, 0, cpu_s=60.0)
    finish(second, 0, cpu_s=39.0)
    third = lease(pilot)
    assert third is not None
    finish(third, 0, cpu_s=1.0)
    assert leases(pilot) == []
    limits.sum_up()
    assert leases(pilot) == []
    pass_time(seconds=86_400 - 300)
    assert leases(pilot) == []
    # An hour counts until all of it is a day ago: 60 s of the day before are over, 40 s of this one are not.
    pass_time(seconds=600)
    assert lease(pilot) is not None
    (standing,) = limit_standings()
    assert standing.bounds.cpu_s == 40.0
    pass_time(seconds=3600)
    limits.sum_up()
    (standing,) = limit_standings()
    assert standing.bounds.cpu_s == 0.0


@pytest.mark.parametrize(
    ("written", "given"),
    quick_cases(
        [
            # After so many seconds from the beginning: how many matches more.
            ("delay_s: 10", {0: 1, 9: 0, 11: 1, 12: 0, 100: 1}),
            ("delay_s: 10, burst: 1", {0: 1, 11: 1}),
            ("delay_s: 10, burst: 3", {0: 3, 9: 0, 11: 1, 35: 2, 1000: 3, 1001: 0}),
            ("delay_s: 0.5, burst: 2", {0: 2, 1: 2, 2: 2}),
            ("delay_s: 86400, burst: 2", {0: 2, 86_000: 0, 86_500: 1}),
            ("delay_s: 0", {0: 12}),
            ("delay_s: 0, burst: 1", {0: 12}),
            ("delay_s: 10, burst: 3, running: 4", {0: 3, 25: 1, 100: 0}),
        ],
        quick=3,
    ),
)
def test_matches_follow_the_delay_and_the_burst(
    sample: SampleData, pilot: APIClient, written: str, given: dict[int, int]
) -> None:
    for _ in range(12):
        of_alice(sample)
    limit(f"{{scope: {{site: LCG.CERN.ch}}, {written}}}")
    stop_clock()
    passed, found = 0, {}
    for moment in given:
        pass_time(seconds=moment - passed)
        passed = moment
        found[moment] = len(leases(pilot))
    assert found == given


# ---- Scopes ----------------------------------------------------------------------------------------------------------

NAMES = ("vo", "site", "ce", "group", "user", "job_type")


@pytest.mark.parametrize("seed", quick_cases(range(3), quick=1))
def test_limits_on_all_combinations_hold_without_affecting_other_jobs(seed: int) -> None:
    chance = Random(seed)
    vos = [factories.make_vo() for _ in range(2)]
    groups = [factories.make_group(vo=vo, shares_jobs=True) for vo in vos for _ in range(2)]
    users = [factories.make_user(groups=groups) for _ in range(2)]
    site = factories.make_site()
    ces = [factories.make_ce(site=at) for at in (site, site, factories.make_site())]
    limited = {"vo": vos[0], "site": site, "ce": ces[0], "group": groups[0], "user": users[0], "job_type": "Merge"}
    for names in (names for size in range(1, 7) for names in combinations(NAMES, size)):
        Limit.objects.create(running=chance.randrange(1, 12), **{name: limited[name] for name in names})
    for group, user, job_type in product(groups, users, ["Merge", "User"]):
        for _ in range(4):
            factories.make_job(group=group, owner=user, job_type=job_type)
    pilots = [
        factories.make_pilot(vo=vo, queue=factories.make_queue(ce=ce, **factories.LARGE_SLOT))
        for vo in vos
        for ce in ces
    ]
    for pilot in chance.sample(pilots, len(pilots)):
        client = bearer(factories.make_pilot_token(pilot))
        client.post("/api/v1/matches/", offer(max_jobs=5, processors=5, memory_mb=400_000), format="json")
        while lease(client) is not None:
            pass

    for standing in limit_standings():
        named = {name: getattr(standing.limit, name) for name in NAMES if getattr(standing.limit, name)}
        theirs = {"owner" if name == "user" else name: value for name, value in named.items()}
        assert standing.bounds.held == Job.objects.filter(status=JobStatus.MATCHED, **theirs).count()
        assert standing.bounds.held <= (standing.limit.running or 0)
    full = [one.scope for one in limit_standings() if one.bounds.room(now=timezone.now()) == 0]
    waiting = TaskQueue.objects.with_jobs()
    assert waiting.exists()
    assert Job.objects.filter(status=JobStatus.MATCHED).count() > 10
    for task_queue, ce in product(waiting, ces):
        held_back = [scope.holds_at(site_id=ce.site_id, ce_id=ce.pk) and scope.is_on(task_queue) for scope in full]
        assert any(held_back), (task_queue, ce)
    priorities.recalculate()
    assert list(violations()) == []
