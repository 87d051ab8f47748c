"""Floods of submissions by one user are refused, while other users are served."""

import logging
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from taskqueues.models import QueuedJob, TaskQueue
from tests.admin.conftest import NO_MEMBERSHIPS
from tests.attacks.users import JOB, JOBS, client_of, post
from tests.factories import (
    NOW,
    make_group,
    make_pilot,
    make_pilot_token,
    make_queue,
    make_user,
    make_vo,
    submit,
)
from tests.pace import wait_for, within
from tests.problems import of_problem
from tests.threads import at_once
from wms.accounts.models import Membership, User
from wms.jobs.domain.lifecycle import Action
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job
from wms.jobs.services import bulk
from wms.kernel import rates
from wms.kernel.db import LockKey, session_lock
from wms.stack.binaries import find_valkey
from wms.stack.servers import ValkeyServer

# ---- Rates -----------------------------------------------------------------------------------------------------------


def counted_by(location: str, settings: Settings) -> None:
    """Count rates at this Redis address, under a prefix of the test's own."""
    cache = {**settings.CACHES["rates"], "LOCATION": location, "KEY_PREFIX": str(uuid4())}
    settings.CACHES = {**settings.CACHES, "rates": cache}


@pytest.fixture
def counting(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "_counters", rates._Counters())
    counted_by(settings.CACHES["rates"]["LOCATION"], settings)


def until_refused(ask: Callable[[], Any], *, limit: int) -> Any:
    """Return the first refusal; the number of requests exceeds the limits of two minutes."""
    for _ in range(2 * limit + 1):
        if (answer := ask()).status_code == HTTPStatus.TOO_MANY_REQUESTS:
            return answer
        assert answer.status_code < 400
    raise AssertionError("nobody was refused")


@pytest.mark.django_db
@pytest.mark.usefixtures("counting")
def test_the_request_rate_is_limited_by_user(eve: User, bob: User, settings: Settings) -> None:
    settings.WMS_MAX_REQUESTS_PER_MINUTE = 5
    first, second = client_of(eve), client_of(eve)
    clients = iter([first, second] * 6)
    refusal = until_refused(lambda: next(clients).get("/api/v1/auth/me/"), limit=5)
    assert refusal.json()["code"] == "rate_exceeded"
    assert refusal.json()["detail"].startswith("You may send 5 requests in a minute; try again in ")
    assert 1 <= int(refusal.headers["Retry-After"]) <= 60
    assert client_of(bob).get("/api/v1/auth/me/").status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("counting")
def test_submissions_over_rest_and_by_the_portal_count_together(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_SUBMISSIONS_PER_MINUTE = 4
    client, browser = client_of(eve), Client()
    browser.force_login(eve)

    def submit_in_portal() -> Any:
        form = {"jdl": 'Executable = "/bin/true";', "group": "lhcb_user", "request_id": str(uuid4())}
        return browser.post("/jobs/submit/jdl/", form)

    asks: Iterator[Callable[[], Any]] = iter([partial(post, client), submit_in_portal] * 5)
    until_refused(lambda: next(asks)(), limit=4)  # noqa: PLW0108 - another one each time
    assert client.get(JOBS).status_code == 200
    page = until_refused(submit_in_portal, limit=4)
    assert "Nothing was submitted. You may send 4 submissions" in page.content.decode()
    assert page.headers["Retry-After"]


@pytest.mark.django_db
@pytest.mark.usefixtures("counting")
def test_pilots_are_not_limited(settings: Settings) -> None:
    settings.WMS_MAX_REQUESTS_PER_MINUTE = 1
    from_pilot = pilot_client()
    assert {match(from_pilot).status_code for _ in range(4)} == {204}
    assert {from_pilot.get("/api/v1/pilots/config/").status_code for _ in range(4)} == {200}


@pytest.fixture
def redis() -> Iterator[tuple[ValkeyServer, subprocess.Popen[bytes]]]:
    with tempfile.TemporaryDirectory(prefix="wms-", dir="/tmp") as directory:
        server = ValkeyServer(program=find_valkey(), sockets=Path(directory))
        process = subprocess.Popen(server.command())
        wait_for(server.is_ready)
        yield server, process
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()


@pytest.mark.django_db
@pytest.mark.usefixtures("counting")
@pytest.mark.parametrize("death", [signal.SIGKILL, signal.SIGSTOP])
def test_requests_pass_and_the_log_says_so_while_redis_is_dead(
    death: signal.Signals,
    redis: tuple[ValkeyServer, subprocess.Popen[bytes]],
    eve: User,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    server, process = redis
    counted_by(server.url().replace("redis+socket://", "unix://"), settings)
    settings.WMS_MAX_REQUESTS_PER_MINUTE = 3
    client = client_of(eve)
    until_refused(lambda: client.get("/api/v1/auth/me/"), limit=3)

    process.send_signal(death)
    if death == signal.SIGKILL:
        process.wait()
    with caplog.at_level(logging.WARNING):
        assert {client.get("/api/v1/auth/me/").status_code for _ in range(20)} == {200}
    warnings = [record for record in caplog.records if record.name == "wms.kernel.rates"]
    assert len(warnings) == 1
    assert "rates.not_limited: Redis does not answer" in warnings[0].getMessage()


# ---- Submissions in flight -------------------------------------------------------------------------------------------


def pilot_client() -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_pilot_token(make_pilot(queue=make_queue()))}")
    return client


def match(client: APIClient) -> Any:
    offer = {"cpu_time_s": 300_000, "request_id": str(uuid4())}
    return client.post("/api/v1/matches/", offer, format="json")


@pytest.mark.django_db(transaction=True)
def test_one_user_has_two_submissions_in_progress_at_most(eve: User, bob: User) -> None:
    flood, other = [client_of(eve) for _ in range(8)], client_of(bob)

    def sent(client: APIClient) -> Any:
        try:
            return post(client, jobs=10)
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=8) as pool:
        # The submissions that were let in wait here, as long ones would work; until then nobody else has a chance.
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s, %s)", [int(LockKey.COUNT_JOBS_OF_USER), eve.pk])
        answers = [pool.submit(sent, client) for client in flood]
        wait_for(lambda: sum(answer.done() for answer in answers) == 6)
        refused = [answer.result() for answer in answers if answer.done()]
        assert post(other).status_code == 201
        assert post(client_of(eve)).status_code == 429
        assert client_of(eve).get(JOBS).status_code == 200
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_unlock(%s, %s)", [int(LockKey.COUNT_JOBS_OF_USER), eve.pk])
        everybody = [answer.result(timeout=within(60)) for answer in answers]
    assert {answer.status_code for answer in refused} == {429}
    assert {answer.json()["code"] for answer in refused} == {"submissions_in_flight"}
    assert {answer.headers["Retry-After"] for answer in refused} == {"1"}
    assert sorted(answer.status_code for answer in everybody) == [201] * 2 + [429] * 6
    assert Job.objects.filter(owner=eve).count() == 20
    assert post(client_of(eve)).status_code == 201


_HOLDS_A_PLACE = """
import sys, time, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT pg_advisory_lock(%s, %s)", [int(sys.argv[2]), int(sys.argv[3])])
    print("held", flush=True)
    time.sleep(3600)
"""


@pytest.mark.django_db(transaction=True)
def test_a_dead_process_frees_its_submission_lock() -> None:
    address = connection.get_connection_params()
    dsn = " ".join(f"{name}={address[name]}" for name in ("host", "port", "user", "dbname") if address.get(name))
    key = int(LockKey.SUBMISSIONS_IN_FLIGHT)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS_A_PLACE, dsn, str(key), "7"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with session_lock(LockKey.SUBMISSIONS_IN_FLIGHT, of=7, places=1) as is_held:
            assert not is_held
        process.kill()

    def is_free() -> bool:
        with session_lock(LockKey.SUBMISSIONS_IN_FLIGHT, of=7, places=1) as is_held:
            return is_held

    wait_for(is_free)


@pytest.mark.django_db
def test_a_refused_submission_frees_its_lock(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_SUBMISSIONS_IN_FLIGHT = 1
    for _ in range(3):
        assert client_of(eve).post(JOBS, {"jdl": "]"}, format="json").status_code == 400
    assert post(client_of(eve)).status_code == 201


# ---- Waiting jobs ----------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_the_limit_of_waiting_jobs_is_exact_when_many_submit_at_once(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_WAITING_JOBS_PER_USER, settings.WMS_MAX_SUBMISSIONS_IN_FLIGHT = 23, 0
    clients = [client_of(eve) for _ in range(8)]
    answers = at_once([partial(post, client, 5) for client in clients])
    assert sorted(answer.status_code for answer in answers) == [201] * 4 + [409] * 4
    assert QueuedJob.objects.count() == Job.objects.count() == 20
    assert post(clients[0], 3).status_code == 201
    refusal = post(clients[0])
    said = (
        "At most 23 of your jobs may wait; 23 wait, and 1 would be added. Submit fewer, wait until some have run, "
        "or ask an operator to give lhcb_user the property PRODUCTION, which lifts this."
    )
    assert of_problem(refusal.json()) == (409, "quota_exceeded", said)


@pytest.fixture
def few(settings: Settings) -> None:
    settings.WMS_MAX_WAITING_JOBS_PER_USER = 3


@pytest.mark.django_db
@pytest.mark.usefixtures("few")
def test_a_submission_beyond_the_limit_leaves_nothing_behind(eve: User, bob: User) -> None:
    assert post(client_of(eve), 4).status_code == 409
    assert not Job.objects.exists()
    assert not TaskQueue.objects.exists()
    assert post(client_of(eve), 3).status_code == 201
    assert post(client_of(bob), 3).status_code == 201


@pytest.mark.django_db
@pytest.mark.usefixtures("few")
def test_other_groups_and_held_jobs_count_in_the_limit(eve: User) -> None:
    Membership.objects.create(user=eve, group=make_group(name="other"))
    request = {"jobs": [JOB] * 3, "group": "other"}
    assert client_of(eve).post(JOBS, request, format="json").status_code == 201
    for action in (Action.HOLD, Action.RELEASE):
        assert client_of(eve).post(JOBS, {**request, "jobs": [JOB]}, format="json").status_code == 409
        jobs = list(Job.objects.values_list("pk", flat=True))
        assert bulk.act_on(action, jobs, by=eve, now=NOW).done == 3
    bulk.act_on(Action.KILL, list(Job.objects.values_list("pk", flat=True)), by=eve, now=NOW)
    assert client_of(eve).post(JOBS, request, format="json").status_code == 201


@pytest.mark.django_db
@pytest.mark.usefixtures("few")
def test_production_groups_have_no_limit_of_waiting_jobs(eve: User) -> None:
    Membership.objects.create(user=eve, group=make_group(name="lhcb_prod", production=True))
    body: dict[str, Any] = {"jobs": [JOB] * 10, "group": "lhcb_prod"}
    assert client_of(eve).post(JOBS, body, format="json").status_code == 201
    assert (
        client_of(eve).post(JOBS, {**body, "group": "lhcb_user", "jobs": [JOB] * 3}, format="json").status_code == 201
    )


@pytest.mark.django_db
def test_returning_jobs_are_not_bounded_by_the_limit_of_waiting_jobs(eve: User, settings: Settings) -> None:
    result = submit(parse_submission({"jobs": [JOB] * 5}), owner=eve, now=NOW)
    jobs = [job.id for job in result.jobs]
    bulk.act_on(Action.HOLD, jobs, by=eve, now=NOW)
    settings.WMS_MAX_WAITING_JOBS_PER_USER = 3
    assert bulk.act_on(Action.RELEASE, jobs, by=eve, now=NOW).done == 5
    assert QueuedJob.objects.count() == 5


@pytest.mark.django_db
def test_only_operators_mark_a_group_as_a_production() -> None:
    vo = make_vo(name="lhcb")
    group = make_group(name="lhcb_user", vo=vo)
    manager, operator = Client(), Client()
    manager.force_login(make_user(staff=True, manages=[vo]))
    operator.force_login(make_user(staff=True, operator=True))
    page = f"/admin/accounts/group/{group.pk}/change/"
    form: dict[str, Any] = {"priority": "1000", **NO_MEMBERSHIPS}

    assert manager.post(page, {**form, "properties": ["PRODUCTION"]}).status_code == 200
    group.refresh_from_db()
    assert group.properties == []
    assert operator.post(page, {**form, "properties": ["PRODUCTION"]}).status_code == 302
    assert manager.post(page, {**form, "properties": ["JOB_SHARING"]}).status_code == 302
    group.refresh_from_db()
    assert group.properties == ["JOB_SHARING", "PRODUCTION"]
