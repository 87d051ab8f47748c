"""A plain request for a job is answered without the frameworks, with the same answer as the view's."""

from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from django.http import HttpRequest
from django.utils import timezone
from pytest_django import Settings

from matching.api.views import MatchesView
from pilots.models import Pilot
from pilots.services.tokens import issue_pilot_token
from tests import factories
from tests.api.matching.conftest import SampleData, offer
from tests.wsgi import FastClient

if TYPE_CHECKING:
    from django.test.client import _MonkeyPatchedWSGIResponse as Answer

PLAIN = "application/json"
#: The same to every parser, but nothing that is taken without looking twice.
NOT_PLAIN = "application/json; charset=utf-8"


@pytest.fixture
def by_the_view(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which the content type of each request is added that reaches the view."""
    seen: list[str] = []
    real = MatchesView.initialize_request

    def initialize_request(view: MatchesView, request: HttpRequest, *args: object, **kwargs: object) -> Any:
        seen.append(str(request.META.get("CONTENT_TYPE")))
        return real(view, request, *args, **kwargs)

    monkeypatch.setattr(MatchesView, "initialize_request", initialize_request)
    return seen


def token_of(pilot: Pilot, *, lifetime: timedelta | None = None) -> str:
    return issue_pilot_token(pilot, now=timezone.now(), lifetime=lifetime).token


def post(body: object, *, token: str | None, content_type: str = PLAIN, **headers: str) -> "Answer":
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return FastClient().post("/api/v1/matches/", body, content_type=content_type, headers=headers)


def compared_parts(answer: "Answer") -> tuple[int, bytes, dict[str, str]]:
    return answer.status_code, answer.content, dict(answer.headers)


def test_both_ways_give_the_same_lease(sample: SampleData, by_the_view: list[str]) -> None:
    factories.make_job(
        owner=sample.alice, group=sample.prod, arguments="\u2028 \N{GRINNING FACE} é", environment={"A": "1e16"}
    )
    said, token = offer(), token_of(sample.pilot)
    plain, other = (post(said, token=token, content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == [NOT_PLAIN]
    assert plain.status_code == other.status_code == HTTPStatus.CREATED
    # The token says until which second it is valid.
    assert {**plain.json(), "token": ""} == {**other.json(), "token": ""}
    assert set(plain.headers) == set(other.headers)


def test_both_ways_answer_an_empty_match(sample: SampleData, by_the_view: list[str]) -> None:
    plain, other = (post(offer(), token=token_of(sample.pilot), content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == [NOT_PLAIN]
    assert plain.status_code == other.status_code == HTTPStatus.NO_CONTENT
    assert set(plain.headers) == set(other.headers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff",
        b"{}",
        b'{"cpu_time_s": 1, "cpu_time_s": 2}',
        b'{"cpu_time_s": NaN}',
        b'{"cpu_time_s": 1e999}',
        b'{"site": "a\\u0000b"}',
        b'{"site": "\\ud800"}',
        b'{"tags": ' + b"[" * 200 + b"]" * 200 + b"}",
        offer(proccessors=1),
        offer(cpu_time_s="1", tags=[1], site=""),
        offer(required_tags=["x"]),
        offer(vo="cms"),
        offer(tags=["x"] * 1001),
        b" " * 2000,
    ],
)
def test_both_ways_refuse_a_body_in_the_same_words(
    sample: SampleData, settings: Settings, by_the_view: list[str], body: object
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 20_000
    plain, other = (post(body, token=token_of(sample.pilot), content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == ([PLAIN, NOT_PLAIN] if body else ["None"] * 2)
    assert plain.status_code >= 400
    assert compared_parts(plain) == compared_parts(other)


def test_both_ways_refuse_a_body_that_is_too_large(
    sample: SampleData, settings: Settings, by_the_view: list[str]
) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    plain, other = (post(offer(), token=token_of(sample.pilot), content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == [PLAIN, NOT_PLAIN]
    assert plain.status_code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    assert compared_parts(plain) == compared_parts(other)


def test_both_ways_refuse_a_pilot_that_was_revoked(sample: SampleData) -> None:
    factories.make_job(owner=sample.alice, group=sample.prod)
    Pilot.objects.update(revoked_at=timezone.now())
    plain, other = (post(offer(), token=token_of(sample.pilot), content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert plain.status_code == HTTPStatus.FORBIDDEN
    assert compared_parts(plain) == compared_parts(other)


@pytest.mark.parametrize(
    ("token", "status"),
    [
        ("none", 401),
        ("empty", 401),
        ("expired", 401),
        ("forged", 401),
        ("two", 401),
        ("of another kind", 401),
        ("unknown", 401),
        ("user", 403),
    ],
)
def test_both_ways_refuse_other_tokens_in_the_same_words(
    sample: SampleData, by_the_view: list[str], token: str, status: int
) -> None:
    good = token_of(sample.pilot)
    tokens = {
        "none": None,
        "empty": "",
        "expired": token_of(sample.pilot, lifetime=-timedelta(seconds=1)),
        "forged": good[:-4] + "AAAA",
        "two": f"{good} {good}",
        "of another kind": good.replace("wmsp_", "wmsj_"),
        "unknown": "x",
        "user": factories.make_token(sample.alice),
    }
    factories.make_job(owner=sample.alice, group=sample.prod)
    post(offer(), token=good)
    plain, other = (post(offer(), token=tokens[token], content_type=kind) for kind in (PLAIN, NOT_PLAIN))
    assert by_the_view == [PLAIN, NOT_PLAIN]
    assert plain.status_code == status
    assert compared_parts(plain) == compared_parts(other)


@pytest.mark.parametrize(
    ("headers", "content_type", "status"),
    [
        ({"Accept": "text/html"}, PLAIN, 406),
        ({"Accept": "text/html, */*;q=0.1"}, PLAIN, 204),
        ({}, "text/plain", 415),
    ],
)
def test_content_negotiation_is_left_to_the_framework(
    sample: SampleData, by_the_view: list[str], headers: dict[str, str], content_type: str, status: int
) -> None:
    body: object = offer() if content_type == PLAIN else b'{"cpu_time_s": 1}'
    assert post(body, token=token_of(sample.pilot), content_type=content_type, **headers).status_code == status
    assert by_the_view == [content_type]


def test_only_post_is_answered(sample: SampleData) -> None:
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        headers = {"Authorization": f"Bearer {token_of(sample.pilot)}"}
        answer = FastClient().generic(method, "/api/v1/matches/", b"{}", content_type=PLAIN, headers=headers)
        assert (answer.status_code, answer["Allow"]) == (405, "POST, OPTIONS")


def test_an_internal_error_is_500_in_the_usual_format(sample: SampleData, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **options: object) -> None:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr("matching.api.views.match", broken)
    answer = post(offer(request_id=str(uuid4())), token=token_of(sample.pilot))
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal_error"
