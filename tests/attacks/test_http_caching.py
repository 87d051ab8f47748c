"""Caches between server and client store nothing that belongs to one user."""

from collections.abc import Mapping

import pytest
from django.test import Client

from tests.attacks.web import Lease
from tests.factories import make_token, make_user
from tests.wsgi import FastClient

pytestmark = pytest.mark.django_db

PAGES = (
    "/jobs/",
    "/jobs/submit/",
    "/pilots/",
    "/jobs/why/",
    "/task-queues/",
    "/sites/",
    "/shares/",
    "/jobs/1/",
    "/admin/",
    "/admin/accounts/user/",
    "/accounts/login/",
    "/nowhere/",
)
ANSWERS = (
    "/api/v1/jobs/",
    "/api/v1/auth/me/",
    "/api/v1/groups/",
    "/api/v1/jobs/1/",
    "/api/v1/pilots/config/",
    "/api/v1/nowhere/",
)


def kept_by_nobody(headers: Mapping[str, str]) -> bool:
    return {"private", "no-store"} <= {word.strip() for word in headers["Cache-Control"].split(",")}


@pytest.mark.parametrize("path", PAGES)
def test_pages_are_not_cached(client: Client, path: str) -> None:
    assert kept_by_nobody(client.get(path).headers)
    client.force_login(make_user(operator=True, staff=True, superuser=True))
    assert kept_by_nobody(client.get(path).headers)


@pytest.mark.parametrize("path", ANSWERS)
def test_api_answers_are_not_cached(client: Client, path: str) -> None:
    assert kept_by_nobody(client.get(path).headers)
    bearer = {"Authorization": f"Bearer {make_token(make_user())}"}
    assert kept_by_nobody(client.get(path, headers=bearer).headers)


def test_heartbeat_answers_are_not_cached() -> None:
    lease = Lease.make()
    answer = FastClient().post(
        f"/api/v1/matches/{lease.match_id}/heartbeat/",
        {"cpu_s": 1.0},
        content_type="application/json",
        headers={"Authorization": f"Bearer {lease.token}"},
    )
    assert answer.status_code == 200
    assert kept_by_nobody(answer.headers)


def test_the_schema_is_generated_once_and_cached(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    first = client.get("/api/v1/schema/")
    monkeypatch.setattr("wms.kernel.rest.views.SpectacularAPIView.get", None)
    again = client.get("/api/v1/schema/")
    assert (again.status_code, again.content) == (200, first.content)
    assert again["Cache-Control"] == "public, max-age=300"
    assert client.get("/api/v1/schema/", headers={"If-None-Match": first["ETag"]}).status_code == 304
