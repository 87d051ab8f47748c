"""A plain heartbeat is answered without the frameworks, with the same answer as the view's."""

from collections.abc import Callable
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.http import HttpRequest
from django.utils import timezone
from pytest_django import Settings

from matching.api.views import HeartbeatView
from matching.models import Match
from matching.services import job_tokens
from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from tests import factories
from tests.api.matching.conftest import SampleData, lease_for
from tests.wsgi import FastClient
from wms.jobs.domain.lifecycle import JobStatus
from wms.jobs.models import Job, JobCommand

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer
    from rest_framework.test import APIClient

PLAIN = "application/json"
#: The same to every parser, but nothing that is taken without looking twice.
NOT_PLAIN = "application/json; charset=utf-8"
BEAT: dict[str, object] = {
    "cpu_s": 1.5,
    "wall_s": 2,
    "memory_mb": 3.5,
    "disk_mb": 4,
    "std_output": "é\n",
    "std_error": "ü\n",
}


@pytest.fixture
def by_the_view(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the content type of each heartbeat is added that reaches the view."""
    seen: list[str] = []
    real = HeartbeatView.initialize_request

    def initialize_request(view: HeartbeatView, request: HttpRequest, *args: object, **kwargs: object) -> Any:
        seen.append(str(request.META.get("CONTENT_TYPE")))
        return real(view, request, *args, **kwargs)

    monkeypatch.setattr(HeartbeatView, "initialize_request", initialize_request)
    return seen


@pytest.fixture
def lease(sample: SampleData, pilot: "APIClient") -> dict[str, Any]:
    factories.make_job(owner=sample.alice, group=sample.prod)
    return lease_for(pilot)


@pytest.fixture
def beat(lease: dict[str, Any]) -> Callable[..., "Answer"]:
    def beat(
        body: object = BEAT,
        *,
        token: str | None = lease["token"],
        kind: str = PLAIN,
        path: str = f"/api/v1/matches/{lease['match_id']}/heartbeat/",
        **headers: str,
    ) -> "Answer":
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return FastClient().post(path, body, content_type=kind, headers=headers)

    return beat


def compared_parts(answer: "Answer") -> tuple[int, bytes, dict[str, str]]:
    return answer.status_code, answer.content, dict(answer.headers)


def token_of(pilot: Pilot, *, lifetime: timedelta | None = None) -> str:
    return issue_pilot_token(pilot, now=timezone.now(), lifetime=lifetime).token


@pytest.mark.parametrize(
    "body", [{}, BEAT, {"cpu_s": None}, {"std_output": ""}, {"std_error": ""}, {"acknowledged": []}]
)
def test_both_ways_renew_a_lease(
    beat: Callable[..., "Answer"], lease: dict[str, Any], by_the_view: list[str], body: dict[str, object]
) -> None:
    JobCommand.objects.create(job_id=lease["job"]["id"], name="peek", arguments={"a": [1]}, created_at=timezone.now())
    after = []
    for kind in (PLAIN, NOT_PLAIN):
        answer = beat(body, kind=kind)
        assert answer.status_code == HTTPStatus.OK
        job, match = Job.objects.get(), Match.objects.get()
        assert job.heartbeat_at == match.reported_at
        assert answer.json()["expires_at"] == f"{match.expires_at.replace(tzinfo=None).isoformat()}Z"
        columns = (job.cpu_s, job.wall_s, job.max_memory_mb, job.max_disk_mb)
        tails = (job.std_output_tail, job.std_error_tail)
        after.append(({**answer.json(), "expires_at": ""}, dict(answer.headers), columns, tails))
    assert by_the_view == [NOT_PLAIN]
    assert after[0] == after[1]
    assert after[0][0]["commands"][0]["arguments"] == {"a": [1]}


@pytest.mark.parametrize("whose", ["pilot's", "lease's"])
def test_both_ways_give_a_new_token_for_one_that_is_about_to_end(
    sample: SampleData, beat: Callable[..., "Answer"], lease: dict[str, Any], by_the_view: list[str], whose: str
) -> None:
    if whose == "pilot's":
        token = token_of(sample.pilot, lifetime=timedelta(minutes=20))
    else:
        match = Match.objects.get()
        token = job_tokens.issue(match.pk, job_id=match.job_id, now=timezone.now() - timedelta(hours=20))
    plain, other = (beat(token=token, kind=kind).json()["token"] for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == [NOT_PLAIN]
    assert plain[:5] == other[:5] == token[:5]
    assert beat(token=plain).status_code == HTTPStatus.OK


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b'{"cpu_s": 1, "cpu_s": 2}',
        b'{"cpu_s": NaN}',
        b'{"cpu_s": 1e999}',
        b'{"std_output": "a\\u0000b"}',
        b'{"std_output": "\\ud800"}',
        b'{"acknowledged": ' + b"[" * 200 + b"]" * 200 + b"}",
        {"cpu": 1},
        {"cpu_s": -1},
        {"cpu_s": "1"},
        {"cpu_s": True},
        {"cpu_s": 10**13},
        {"std_output": "x" * 16_385},
        {"std_error": "x" * 16_385},
        b'{"std_error": "a\\u0000b"}',
        {"acknowledged": [1.5]},
        b" " * 30_000,
    ],
)
def test_both_ways_refuse_a_body_in_the_same_words(
    beat: Callable[..., "Answer"], settings: Settings, body: object
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20_000
    before = Job.objects.values().get(), Match.objects.values().get()
    plain, other = (beat(body, kind=kind) for kind in (PLAIN, NOT_PLAIN))
    assert plain.status_code >= 400
    assert compared_parts(plain) == compared_parts(other)
    assert before == (Job.objects.values().get(), Match.objects.values().get())


def test_both_ways_refuse_other_tokens_in_the_same_words(sample: SampleData, beat: Callable[..., "Answer"]) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    good, other_pilot = token_of(sample.pilot), factories.make_pilot(vo=sample.vo)
    match = Match.objects.get()
    tokens = {
        None: 401,
        "": 401,
        "x": 401,
        token_of(sample.pilot, lifetime=-timedelta(seconds=1)): 401,
        good[:-4] + "AAAA": 401,
        f"{good} {good}": 401,
        good.replace("wmsp_", "wmsj_"): 401,
        factories.make_token(sample.alice): 403,
        token_of(other_pilot): 404,
        job_tokens.issue(uuid4(), job_id=match.job_id, now=timezone.now()): 404,
    }
    for token, status in tokens.items():
        plain, other = (beat(token=token, kind=kind) for kind in (PLAIN, NOT_PLAIN))
        assert plain.status_code == status, token
        assert compared_parts(plain) == compared_parts(other)
    assert Match.objects.get().reported_at is None


@pytest.mark.parametrize("whose", ["pilot's", "lease's"])
def test_both_ways_refuse_a_lease_that_has_ended_and_a_pilot_that_was_revoked(
    sample: SampleData, beat: Callable[..., "Answer"], lease: dict[str, Any], whose: str
) -> None:
    token = lease["token"] if whose == "lease's" else token_of(sample.pilot)
    assert beat(token=token).status_code == HTTPStatus.OK
    for code, status in (("pilot_revoked", HTTPStatus.FORBIDDEN), ("lease_ended", HTTPStatus.CONFLICT)):
        now = timezone.now()
        Pilot.objects.update(revoked_at=now if code == "pilot_revoked" else None)
        Match.objects.update(ended_at=now if code == "lease_ended" else None, end_reason="expired")
        before = Job.objects.values().get(), Match.objects.values().get(), Pilot.objects.values().get()
        plain, other = (beat(token=token, kind=kind) for kind in (PLAIN, NOT_PLAIN))
        assert (plain.status_code, plain.json()["code"]) == (status, code)
        assert compared_parts(plain) == compared_parts(other)
        assert before == (Job.objects.values().get(), Match.objects.values().get(), Pilot.objects.values().get())


def test_what_is_more_than_a_renewal_needs_no_framework_either(
    beat: Callable[..., "Answer"], lease: dict[str, Any], by_the_view: list[str]
) -> None:
    Job.objects.update(status=JobStatus.STALLED)
    assert beat().status_code == HTTPStatus.OK
    assert Job.objects.get().status == JobStatus.MATCHED
    order = JobCommand.objects.create(job_id=lease["job"]["id"], name="kill", created_at=timezone.now())
    assert beat({"acknowledged": [order.pk]}).json()["commands"] == []
    assert Match.objects.get().end_reason == "killed"
    assert by_the_view == []


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"Accept": "text/html"}, 406),
        ({"Accept": "text/html, */*;q=0.1"}, 200),
        ({"Host": "elsewhere.example"}, 400),
        ({"kind": "text/plain", "body": b"{}"}, 415),
        ({"path": "/api/v1/matches/x/heartbeat/"}, 404),
        ({"path": f"/api/v1/matches/{uuid4()}/heartbeat/"}, 404),
        ({"path": f"/api/v1/matches/{uuid4()}/heartbeat"}, 404),
    ],
)
def test_unusual_requests_are_left_to_the_frameworks(
    beat: Callable[..., "Answer"], changed: dict[str, str], status: int
) -> None:
    assert beat(**changed).status_code == status


def test_a_request_with_a_query_string_is_left_to_the_frameworks(
    beat: Callable[..., "Answer"], lease: dict[str, Any], by_the_view: list[str]
) -> None:
    path = f"/api/v1/matches/{lease['match_id']}/heartbeat/"
    assert beat(path=f"{path}?a=%00").status_code == HTTPStatus.BAD_REQUEST
    assert beat(path=f"{path}?a=1").status_code == HTTPStatus.OK
    assert by_the_view == [PLAIN]


def test_only_post_is_answered(lease: dict[str, Any], beat: Callable[..., "Answer"]) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        answer = FastClient().generic(
            method,
            f"/api/v1/matches/{lease['match_id']}/heartbeat/",
            b"{}",
            content_type=PLAIN,
            headers={"Authorization": f"Bearer {lease['token']}"},
        )
        assert (answer.status_code, answer["Allow"]) == (405, "POST, OPTIONS")


def test_an_internal_error_is_500_in_the_usual_format(
    beat: Callable[..., "Answer"], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr("matching.services.leases.heartbeat", broken)
    answer = beat()
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"


def test_a_truncated_body_is_400(lease: dict[str, Any], settings: Settings) -> None:
    class Broken:
        def read(self, *_: int) -> bytes:
            raise OSError("gone")

        readline = read

    answer = FastClient().post(
        f"/api/v1/matches/{lease['match_id']}/heartbeat/",
        b"{}",
        content_type=PLAIN,
        headers={"Authorization": f"Bearer {lease['token']}"},
        **{"wsgi.input": Broken()},  # type: ignore[arg-type]
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


def test_other_requests_are_passed_on() -> None:
    assert FastClient().get("/api/v1/matches/").status_code == HTTPStatus.UNAUTHORIZED


def test_a_body_shorter_than_its_length_is_left_to_the_frameworks(
    beat: Callable[..., "Answer"], by_the_view: list[str]
) -> None:
    assert beat(b'{"cpu_s": 1', **{"Content-Length": "5"}).status_code == HTTPStatus.BAD_REQUEST
    assert by_the_view == [PLAIN]
