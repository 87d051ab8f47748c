"""The real addresses: what no view answers, and what a server refuses, has the API's shape too."""

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("method", "address", "status", "code"),
    [
        ("GET", "/api/nowhere/", 404, "not_found"),
        ("GET", "/api/groups/?vo=%00", 400, "bad_request"),
        ("GET", "/api/gro%00ups/", 400, "bad_request"),
        ("POST", "/api/auth/token", 404, "not_found"),
        ("OPTIONS", "/api/auth/token/", 405, "method_not_allowed"),
        ("FOO", "/api/auth/token/", 405, "method_not_allowed"),
        ("GET", "/api/groups/?format=xml", 401, "not_authenticated"),
    ],
)
def test_every_refusal_is_json_in_one_shape(method: str, address: str, status: int, code: str) -> None:
    answer = Client().generic(method, address)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_page_that_does_not_exist_is_a_page() -> None:
    answer = Client().get("/nowhere/")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "text/html; charset=utf-8")
