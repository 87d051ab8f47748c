"""Requirements from submission to match, over REST against a live server, with submit pools (RFC7)."""

import json
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from pytest_django import Settings
from pytest_django.live_server_helper import LiveServer

from resources.models import Queue
from taskqueues.models import SubmitPool
from taskqueues.services import submit_pools
from tests import factories
from tests.agent.running import RunningAgent
from tests.pace import within

pytestmark = pytest.mark.django_db(transaction=True)


class Grid:
    """Alice, and a pilot registered before any of her jobs, at one queue that offers 2000 MB."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.vo = factories.make_vo(name="lhcb")
        group = factories.make_group(name="lhcb_user", vo=self.vo)
        site = factories.make_site(name="LCG.CERN.ch", vos=[self.vo])
        ce = factories.make_ce(name="ce01", site=site)
        self.queue = factories.make_queue(name="grid", ce=ce, parameters={"Memory": 2000})
        self.alice = factories.make_token(factories.make_user(username="alice", groups=[group], default_group=group))
        self.pilot = factories.make_pilot_token(factories.make_pilot(vo=self.vo, queue=self.queue))

    def ask(self, path: str, body: object = None, *, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token or self.alice}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=within(60)) as answer:
                return answer.status, json.loads(answer.read() or "null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def submit(self, memory: int) -> int:
        status, answer = self.ask("/api/v1/jobs/", {"cfg": f"Executable = true\nRequirements {{ Memory = {memory} }}"})
        assert status == 201
        job_id: int = answer["jobs"][0]["id"]
        return job_id

    def match(self, *, token: str = "", **offer: object) -> int | None:
        """Return the job that a pilot gets, or None."""
        body = {"request_id": str(uuid4()), "cpu_time_s": 300_000, "memory_mb": 4000, **offer}
        status, answer = self.ask("/api/v1/matches/", body, token=token or self.pilot)
        assert status in {201, 204}, answer
        return answer["job"]["id"] if answer else None

    def change(self, **parameters: object) -> None:
        """Change the queue's parameters, as the admin does."""
        with transaction.atomic():
            Queue.objects.filter(pk=self.queue.pk).update(parameters=parameters)
            submit_pools.mark_stale([self.vo], now=datetime.now(UTC))
        submit_pools.refresh_stale(now=datetime.now(UTC))


@pytest.fixture
def grid(live_server: LiveServer, settings: Settings) -> Grid:
    settings.WMS_MATCH_RETRY_AFTER_S = 1
    return Grid(live_server.url)


def test_a_pilot_older_than_a_pool_gets_its_jobs(grid: Grid) -> None:
    assert grid.match() is None
    job_id = grid.submit(2000)
    assert grid.match() == job_id


def test_a_job_is_not_matched_where_its_pool_lost_the_queue_whatever_the_pilot_believes(grid: Grid) -> None:
    job_id = grid.submit(2000)
    (pool,) = SubmitPool.objects.values_list("pk", flat=True)
    grid.change(Memory=1000)
    assert grid.match() is None
    assert grid.match(submit_pools=[pool]) is None
    grid.change(Memory=4000)
    assert grid.match(submit_pools=[]) is None
    assert grid.match(submit_pools=[pool]) == job_id


def test_a_requirement_that_no_queue_meets_today_is_accepted_and_met_tomorrow(grid: Grid) -> None:
    status, answer = grid.ask("/api/v1/jobs/", {"executable": "true", "requirements": {"Memory": 4000}})
    assert status == 201
    assert answer["warnings"] == [
        "It waits because no queue that serves lhcb provides what it requires: Memory = 4000."
    ]
    assert grid.match() is None
    grid.change(Memory=4000)
    assert grid.match() == answer["jobs"][0]["id"]


def test_an_unknown_name_is_refused_with_the_nearest_name(grid: Grid) -> None:
    status, answer = grid.ask("/api/v1/jobs/", {"executable": "true", "requirements": {"Memroy": 4000}})
    assert status == 400
    assert 'Did you mean "Memory"?' in answer["errors"]["requirements.Memroy"][0]


def test_the_pools_of_a_queue_are_found_by_its_names(grid: Grid) -> None:
    grid.submit(2000)
    (pool,) = SubmitPool.objects.values_list("pk", flat=True)
    place = "site=LCG.CERN.ch&ce=ce01"
    for token in (grid.alice, grid.pilot):
        assert grid.ask(f"/api/v1/submit-pools/?{place}&queue=grid", token=token) == (200, {"submit_pools": [pool]})
        status, answer = grid.ask(f"/api/v1/submit-pools/?{place}&queue=gird", token=token)
        assert status == 400
        assert 'Did you mean "grid"?' in answer["errors"]["queue"][0]
        assert grid.ask("/api/v1/submit-pools/?site=LCG.CERN.ch", token=token)[0] == 400


@pytest.mark.parametrize(("queue", "status"), [("grid", "Done"), ("elsewhere", "Waiting")])
def test_a_pilot_without_a_director_requests_its_submit_pools(
    queue: str, status: str, grid: Grid, tmp_path: Path
) -> None:
    """One made by hand would be given any job; told where it is, it asks what that place is good for."""
    fits, too_big = grid.submit(2000), grid.submit(4000)
    token = factories.make_pilot_token(factories.make_pilot(vo=grid.vo))
    place = ["--site", "LCG.CERN.ch", "--ce", "ce01", "--queue", queue]
    with RunningAgent(grid.url, tmp_path, *place, token=token, packed=True) as agent:
        assert agent.wait() == 0, agent.log
    assert grid.ask(f"/api/v1/jobs/{fits}/")[1]["status"] == status
    assert grid.ask(f"/api/v1/jobs/{too_big}/")[1]["status"] == "Waiting"
