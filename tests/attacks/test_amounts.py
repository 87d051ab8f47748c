"""Bounds of what one user or job may make: who is beyond one is refused, and nobody else is (ADR 86)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.db.models import Sum
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from rest_framework.test import APIClient

from matching.models import Match
from matching.services import job_tokens
from matching.services.match import match
from matching.services.offers import OfferRequest
from pilots.domain.logs import LogPart
from pilots.models import Pilot, PilotLog, PilotLogPart
from pilots.services import logs
from taskqueues.models import Limit, LimitEvent
from tests.attacks.users import JOB, JOBS, client_of, post
from tests.clock import pass_time, stop_clock
from tests.factories import (
    LARGE_SLOT,
    make_group,
    make_job,
    make_match,
    make_pilot,
    make_pilot_token,
    make_queue,
    make_user,
    submit,
)
from tests.problems import of_problem
from wms.accounts.models import ApiToken, Group, Membership, User, UserSession
from wms.accounts.services import issue_token
from wms.jobs.domain.lifecycle import Action, JobStatus
from wms.jobs.domain.request import parse_submission
from wms.jobs.models import Job, JobHistory, MadeToday
from wms.jobs.services import bulk, counting
from wms.kernel import rates
from wms.kernel.db import database_now

BULK = f"{JOBS}bulk/"


def act(client: APIClient, action: str, ids: list[int]) -> Any:
    return client.post(BULK, {"action": action, "ids": ids}, format="json")


@pytest.fixture
def within_a_minute(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Count changes in a minute that does not end, under a prefix of the test's own."""
    monkeypatch.setattr(rates, "_counters", rates._Counters())
    monkeypatch.setattr(rates, "current_time", lambda: datetime.fromtimestamp(1_000_000_010, tz=UTC))
    cache = {**settings.CACHES["rates"], "KEY_PREFIX": str(uuid4())}
    settings.CACHES = {**settings.CACHES, "rates": cache}
    settings.WMS_MAX_CHANGES_PER_MINUTE = 6


# ---- Jobs of a day ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_jobs_that_were_killed_and_deleted_count_to_the_end_of_the_day(
    eve: User, bob: User, settings: Settings
) -> None:
    settings.WMS_MAX_JOBS_PER_DAY = 30
    client = client_of(eve)
    for _ in range(3):
        ids = [job["id"] for job in post(client, 10).json()["jobs"]]
        assert act(client, "kill", ids).json()["done"] == act(client, "delete", ids).json()["done"] == 10
    refusal = post(client)
    status, code, said = of_problem(refusal.json())
    assert (status, code) == (429, "day_exceeded")
    assert said.startswith("At most 30 jobs of a user are accepted in a day; 30 were today, and 1 would be added.")
    assert 1 <= int(refusal.headers["Retry-After"]) <= 24 * 3600
    assert Job.objects.filter(owner=eve).count() == 30
    assert post(client_of(bob)).status_code == 201
    pass_time(days=1)
    assert post(client, 30).status_code == 201


@pytest.mark.django_db
def test_a_day_is_exact_and_a_refused_submission_takes_nothing_of_it(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_JOBS_PER_DAY = 10
    client = client_of(eve)
    assert post(client, 11).status_code == 429
    assert not MadeToday.objects.exists()
    assert not any("Until midnight" in warning for warning in post(client, 7).json()["warnings"])
    assert post(client, 4).status_code == 429
    left = "Until midnight in UTC you may submit 1 of 10 jobs more."
    assert left in post(client, 2).json()["warnings"]
    request_id = str(uuid4())
    assert [post(client, request_id=request_id).status_code for _ in range(2)] == [201, 201]
    assert post(client).status_code == 429


@pytest.mark.django_db
def test_jobs_of_productions_do_not_count_in_the_day(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_JOBS_PER_DAY = 2
    Membership.objects.create(user=eve, group=make_group(name="lhcb_prod", production=True))
    assert post(client_of(eve), 5, group="lhcb_prod").status_code == 201
    assert post(client_of(eve), 2, group="lhcb_user").status_code == 201
    assert post(client_of(eve), 1, group="lhcb_user").status_code == 429


@pytest.mark.django_db
def test_descriptions_of_a_day_are_bounded_those_of_edits_too(eve: User, bob: User, settings: Settings) -> None:
    settings.WMS_MAX_DESCRIPTION_BYTES_PER_DAY = 100_000
    client, long = client_of(eve), {**JOB, "environment": {"TEXT": "x" * 30_000}}
    answer = client.post(JOBS, {**long, "parameters": {"count": 100}}, format="json")
    assert answer.status_code == 201, "jobs that differ in nothing share a description"
    first = answer.json()["jobs"][0]["id"]
    each = {**long, "arguments": "%n", "parameters": {"count": 4}}
    assert of_problem(client.post(JOBS, each, format="json").json())[1] == "day_exceeded"
    for name in ("a", "b"):
        assert client.patch(f"{JOBS}{first}/", {"job_name": name}, format="json").status_code == 200
    assert client.patch(f"{JOBS}{first}/", {"job_name": "c"}, format="json").status_code == 429
    assert Job.objects.get(pk=first).job_name == "b"
    assert client_of(bob).post(JOBS, long, format="json").status_code == 201


@pytest.mark.django_db
def test_the_page_of_a_submission_says_that_the_day_is_full(eve: User, settings: Settings) -> None:
    settings.WMS_MAX_JOBS_PER_DAY = 1
    browser = Client()
    browser.force_login(eve)
    for status in (302, 400):
        form = {"jdl": 'Executable = "/bin/true";', "group": "lhcb_user", "request_id": str(uuid4())}
        answer = browser.post("/jobs/submit/jdl/", form)
        assert answer.status_code == status
    assert "At most 1 jobs of a user are accepted in a day" in answer.content.decode()


# ---- Changes of a minute ---------------------------------------------------------------------------------------------


def held_and_released(eve: User) -> Iterator[tuple[str, list[int]]]:
    """Yield actions on three jobs of *eve* that could go on for ever."""
    ids = [job.id for job in submit(parse_submission({"jobs": [JOB] * 3}), owner=eve, now=timezone.now()).jobs]
    while True:
        yield "hold", ids
        yield "release", ids


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_hold_and_release_in_turns_are_refused_whole(eve: User, bob: User) -> None:
    client, turns = client_of(eve), held_and_released(eve)
    for _ in range(2):
        assert act(client, *next(turns)).json()["done"] == 3
    lines = JobHistory.objects.count()
    refusal = act(client, *next(turns))
    assert of_problem(refusal.json())[:2] == (429, "rate_exceeded")
    assert "0 are left, and this request would make 3. Nothing was changed" in refusal.json()["detail"]
    assert int(refusal.headers["Retry-After"]) == 10
    one = Job.objects.filter(owner=eve).values_list("pk", flat=True)[0]
    assert client.post(f"{JOBS}{one}/hold/", {}, format="json").status_code == 429
    assert client.patch(f"{JOBS}{one}/", {"priority": 5}, format="json").status_code == 429
    assert JobHistory.objects.count() == lines
    assert act(client_of(bob), "hold", [make_job(owner=bob, status=JobStatus.WAITING).pk]).status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_a_request_over_the_rest_of_a_minute_takes_nothing_of_it(eve: User) -> None:
    client, turns = client_of(eve), held_and_released(eve)
    assert act(client, *next(turns)).status_code == 200
    ids = list(Job.objects.values_list("pk", flat=True))
    assert act(client, "release", [*ids, 10**9]).status_code == 429
    assert act(client, "release", ids).json()["done"] == 3
    refusal = act(client, "hold", list(range(1, 8)))
    assert of_problem(refusal.json())[:2] == (400, "too_many_changes")


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_all_jobs_can_be_killed_and_deleted_at_once(eve: User) -> None:
    ids = [job["id"] for job in post(client_of(eve), 20).json()["jobs"]]
    for action in ("kill", "delete"):
        assert act(client_of(eve), action, ids).json()["done"] == 20


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_operators_are_not_bounded(eve: User) -> None:
    ids = [job["id"] for job in post(client_of(eve), 20).json()["jobs"]]
    assert act(client_of(make_user(operator=True)), "hold", ids).json()["done"] == 20


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_forms_of_the_portal_count_as_changes(eve: User) -> None:
    browser = Client()
    browser.force_login(eve)
    pages = [browser.post("/accounts/tokens/", {"scope": "read", "days": "1", "name": "x"}) for _ in range(8)]
    statuses = [page.status_code for page in pages]
    assert 2 <= statuses.count(200) <= 6
    assert statuses[-1] == HTTPStatus.TOO_MANY_REQUESTS
    assert "Nothing was changed; name fewer, or try again in" in pages[-1].content.decode()
    assert pages[-1].headers["Retry-After"]
    assert browser.get("/accounts/tokens/").status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("within_a_minute")
def test_actions_of_the_portal_count_once_and_what_ends_something_is_always_possible(eve: User) -> None:
    browser = Client()
    browser.force_login(eve)
    token = issue_token(eve, now=timezone.now())  # one of six
    ids = [job["id"] for job in post(client_of(eve), 5).json()["jobs"]]  # client_of makes a token without counting
    assert token.token
    assert browser.post("/jobs/actions/", {"action": "hold", "ids": ids}).status_code == 302
    assert Job.objects.filter(pk__in=ids, status=JobStatus.HELD).count() == 5
    assert browser.post("/accounts/mail/", {}).status_code == HTTPStatus.TOO_MANY_REQUESTS
    assert browser.post(f"/jobs/{ids[0]}/actions/", {"action": "kill"}).status_code == 302
    assert Job.objects.get(pk=ids[0]).status == JobStatus.KILLED
    own = ApiToken.objects.filter(user=eve).earliest("pk")
    assert browser.post(f"/accounts/tokens/{own.pk}/revoke/").status_code == 302
    browser.post("/accounts/logout/")
    assert not UserSession.objects.filter(user=eve).exists()


# ---- Rows of a job ---------------------------------------------------------------------------------------------------


def rows() -> Counter[str]:
    """Return the numbers of rows of all tables whose rows are about jobs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ '^(jobs|matching|taskqueues|resources)_'"
        )
        tables = [name for (name,) in cursor.fetchall()]
        counted = {}
        for name in tables:
            cursor.execute(f"SELECT count(*) FROM {name}")
            ((counted[name],),) = cursor.fetchall()
    return Counter(counted)


@pytest.mark.django_db
def test_a_job_that_is_submitted_killed_and_deleted_leaves_five_rows_of_its_own(eve: User) -> None:
    post(client_of(eve))  # the rows of the user, the group, the day and the description
    before, ids = rows(), [job["id"] for job in post(client_of(eve), 5).json()["jobs"]]
    for _ in range(2):  # the second time nothing is left to do
        for action in (Action.KILL, Action.DELETE):
            bulk.act_on(action, ids, by=eve, now=timezone.now())
    counting.add_changes()
    of_jobs = {name: number for name, number in (rows() - before).items() if number >= len(ids)}
    assert of_jobs == {"jobs_job": 5, "jobs_jobhistory": 4 * 5}


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_a_life_of_a_job_leaves_a_bounded_number_of_rows(lease: Match, settings: Settings) -> None:
    settings.WMS_MAX_CHANGES_PER_LEASE = 5
    before = rows()
    of_lease(lease, "status", {"status": "Running"})
    for number in range(20):
        pass_time(seconds=30)
        of_lease(lease, "heartbeat", {"cpu_s": number, "std_output": f"event {number}"})
        of_lease(lease, "status", {"status": "Running", "application_status": f"event {number}"})
    of_lease(lease, "finish", {"exit_code": 0, "usage": {}})
    counting.add_changes()
    left = rows() - before
    assert left["jobs_jobhistory"] == 1 + 5 + 1
    assert (left["jobs_outputtail"], left["jobs_usagesamples"]) == (1, 1)
    assert not {name for name, number in left.items() if number > 2} - {"jobs_jobhistory"}


# ---- Reports of a lease ----------------------------------------------------------------------------------------------


@pytest.fixture
def lease(eve: User) -> Match:
    """Return the lease of a job of *eve* with two processors, by a clock that stands still."""
    stop_clock()
    group = Group.objects.get()
    make_job(owner=eve, group=group, processors=2)
    pilot, offer = (
        make_pilot(vo=group.vo, queue=make_queue(**LARGE_SLOT)),
        OfferRequest(cpu_time_s=300_000, processors=8),
    )
    (leased,) = match(offer, request_id=uuid4(), pilot_id=pilot.pk, max_jobs=1, chance=Random(1))
    return Match.objects.get(pk=leased.match_id)


def of_lease(lease: Match, path: str, body: Mapping[str, object], *, token: str | None = None) -> Any:
    headers = {"Authorization": f"Bearer {token or make_pilot_token(lease.pilot)}"}
    url = f"/api/v1/matches/{lease.pk}/{path}/"
    return Client().post(url, body, content_type="application/json", headers=headers)


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_the_words_of_a_job_change_a_bounded_number_of_times_in_a_lease(lease: Match, settings: Settings) -> None:
    settings.WMS_MAX_CHANGES_PER_LEASE = 5
    assert of_lease(lease, "status", {"status": "Running"}).status_code == 200
    lines = JobHistory.objects.filter(job=lease.job_id)
    before = lines.count()
    answers = [
        of_lease(lease, "status", {"status": "Running", "application_status": f"event {number}"}) for number in range(8)
    ]
    assert [answer.status_code for answer in answers] == [200] * 5 + [409] * 3
    assert answers[-1].json()["code"] == "too_many_changes_of_lease"
    assert lines.count() == before + 5
    assert of_lease(lease, "status", {"status": "Running", "application_status": "event 4"}).status_code == 200
    assert of_lease(lease, "heartbeat", {}).status_code == 200
    assert of_lease(lease, "status", {"status": "Completing"}).status_code == 200
    assert of_lease(lease, "finish", {"exit_code": 0, "usage": {}}).status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("path", ["heartbeat", "finish"])
def test_usage_beyond_the_lease_is_cut_noted_and_not_counted(
    path: str, lease: Match, eve: User, settings: Settings
) -> None:
    settings.WMS_USAGE_FACTOR = 1.5
    Limit.objects.create(vo=lease.job.vo, cpu_s_per_day=1000)
    pass_time(seconds=100)
    usage = {"cpu_s": 1e12, "wall_s": 1e9}
    body = usage if path == "heartbeat" else {"exit_code": 0, "usage": usage}
    assert of_lease(lease, path, body).status_code == 200
    job = Job.objects.get(pk=lease.job_id)
    assert (job.cpu_s, job.wall_s) == (300, 150), "two processors for 100 s, by a factor of 1.5"
    assert LimitEvent.objects.aggregate(cpu_s=Sum("cpu_s"))["cpu_s"] == 300
    note = f"job {job.pk}: 1000000000000 s of CPU time reported, 300 s counted"
    assert Pilot.objects.get(pk=lease.pilot_id).cut_usage == note
    operator = make_user(operator=True)
    assert client_of(operator).get("/api/v1/pilots/").json()["results"][0]["cut_usage"] == note
    browser = Client()
    browser.force_login(operator)
    assert note in browser.get(f"/pilots/{lease.pilot_id}/").content.decode()


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_usage_within_the_lease_is_counted_as_reported(lease: Match, settings: Settings) -> None:
    settings.WMS_USAGE_FACTOR = 1.5
    pass_time(seconds=100)
    assert of_lease(lease, "heartbeat", {"cpu_s": 199, "wall_s": 99}).status_code == 200
    job = Job.objects.get(pk=lease.job_id)
    assert (job.cpu_s, job.wall_s) == (199, 99)
    assert Pilot.objects.get(pk=lease.pilot_id).cut_usage == ""


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("path", ["heartbeat", "finish"])
def test_usage_is_not_negative_after_the_clock_was_set_back(path: str, lease: Match) -> None:
    pass_time(hours=-1)
    usage = {"cpu_s": 5, "wall_s": 5}
    body = usage if path == "heartbeat" else {"exit_code": 0, "usage": usage}
    assert of_lease(lease, path, body).status_code == 200
    job = Job.objects.get(pk=lease.job_id)
    assert (job.cpu_s, job.wall_s) == (0, 0)


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_words_without_a_bound_change_any_number_of_times(lease: Match, settings: Settings) -> None:
    settings.WMS_MAX_CHANGES_PER_LEASE = 0
    Match.objects.filter(pk=lease.pk).update(changes=32767)
    assert of_lease(lease, "status", {"status": "Running"}).status_code == 200
    answer = of_lease(lease, "status", {"status": "Running", "application_status": "event"})
    assert answer.status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize("is_job", [False, True])
def test_a_token_of_a_pilot_or_job_has_a_rate_of_its_own(
    is_job: bool, settings: Settings, monkeypatch: pytest.MonkeyPatch, lease: Match
) -> None:
    monkeypatch.setattr(rates, "_machines", rates._Machines())
    settings.WMS_MAX_MACHINE_REQUESTS_PER_MINUTE = 20
    token = job_tokens.issue(lease.pk, job_id=lease.job_id, now=timezone.now()) if is_job else None
    answers = [of_lease(lease, "heartbeat", {}, token=token) for _ in range(22)]
    assert [answer.status_code for answer in answers] == [200] * 20 + [429] * 2
    assert of_problem(answers[-1].json())[1] == "rate_exceeded"
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    other = make_match(job=make_job(status=JobStatus.RUNNING), leased_at=timezone.now())
    assert of_lease(other, "heartbeat", {}).status_code == 200


@pytest.mark.django_db
@pytest.mark.usefixtures("clock")
def test_a_job_that_has_its_node_alone_may_use_all_processors_of_its_queue(group: Group, settings: Settings) -> None:
    settings.WMS_USAGE_FACTOR = 1.5
    stop_clock()
    job = make_job(group=group, status=JobStatus.RUNNING, tags=["WholeNode"])
    now = database_now()
    lease = make_match(job=job, pilot=make_pilot(vo=job.vo, queue=make_queue(processors=8)), leased_at=now)
    pass_time(seconds=100)
    assert of_lease(lease, "heartbeat", {"cpu_s": 799}).status_code == 200
    assert of_lease(lease, "heartbeat", {"cpu_s": 9999}).status_code == 200
    assert Job.objects.get(pk=job.pk).cpu_s == 1200


@pytest.mark.django_db
def test_a_log_with_a_gap_before_each_character_has_a_bounded_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MOST_PARTS", 5)
    pilot = make_pilot()
    for offset in range(0, 40, 2):
        logs.append(LogPart(offset=offset, text="x"), pilot_id=pilot.pk, now=timezone.now())
    assert PilotLogPart.objects.filter(log=pilot.pk).count() == 5
    logs.append(LogPart(offset=39, text="the end"), pilot_id=pilot.pk, now=timezone.now())
    assert PilotLog.objects.get(pk=pilot.pk).received == 46
