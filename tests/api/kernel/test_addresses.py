"""Refusals without a view, by the server or for an unknown address, have the API's error body."""

import pytest
from django.test import Client

from tests import factories

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("method", "address", "status", "code"),
    [
        ("GET", "/api/v1/nowhere/", 404, "not_found"),
        ("GET", "/api/v1/groups/?vo=%00", 400, "bad_request"),
        ("GET", "/api/v1/gro%00ups/", 400, "bad_request"),
        ("POST", "/api/v1/auth/token", 404, "not_found"),
        ("OPTIONS", "/api/v1/auth/token/", 405, "method_not_allowed"),
        ("FOO", "/api/v1/auth/token/", 405, "method_not_allowed"),
        ("GET", "/api/v1/groups/?format=xml", 401, "not_authenticated"),
    ],
)
def test_every_refusal_is_json_in_one_shape(method: str, address: str, status: int, code: str) -> None:
    answer = Client().generic(method, address)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_page_that_does_not_exist_is_a_page() -> None:
    answer = Client().get("/nowhere/")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize("token", ["wmsp_unknown", "wmsu_unknown", None])
def test_every_api_answer_has_nosniff_and_frame_headers(token: str | None) -> None:
    answer = Client().get("/api/v1/jobs/", headers={"Authorization": f"Bearer {token}"} if token else {})
    assert answer.status_code == 401
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["X-Frame-Options"] == "DENY"
    assert answer.headers["Referrer-Policy"] == "same-origin"
    assert int(answer.headers["Content-Length"]) == len(answer.content)


def test_a_request_with_a_token_reads_no_session() -> None:
    client = Client()
    client.force_login(factories.make_user(username="alice"))
    assert client.get("/api/v1/auth/me/").status_code == 200
    answer = client.get("/api/v1/auth/me/", headers={"Authorization": "Bearer unknown"})
    assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert not answer.cookies
    assert "Cookie" not in answer.headers.get("Vary", "")


def test_a_page_ignores_bearer_tokens() -> None:
    answer = Client().get("/accounts/login/", headers={"Authorization": "Bearer unknown"})
    assert "default-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["evil.example.org", "evil.example.org:8000"])
def test_a_token_is_not_accepted_for_another_host(host: str) -> None:
    answer = Client().get("/api/v1/jobs/", headers={"Authorization": "Bearer unknown", "Host": host})
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")
