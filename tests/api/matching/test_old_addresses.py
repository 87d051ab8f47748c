"""Addresses without a version (ADR 52): those of old agents answer as before, unless turned off; all others are 404."""

from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest.mock import create_autospec

import pytest
from django.test import Client
from django.urls import resolve
from pytest_django import Settings

from matching.api.views import HeartbeatView
from matching.models import Match
from tests import factories
from tests.api.credentials.addresses import API, every_address
from tests.api.matching.conftest import SampleData, lease_for
from tests.cases import quick_cases
from tests.problems import of_problem
from tests.tables import checksums
from tests.wsgi import FastClient
from wms.wire.protocol import API_V1

pytestmark = pytest.mark.django_db

MATCH: Final = "00000000-0000-4000-8000-000000000000"
#: Every address in the text of the last agent without a version, and those of its installer and of sites' scripts.
OF_OLD_AGENTS: Final = (
    "matches/",
    f"matches/{MATCH}/status/",
    f"matches/{MATCH}/heartbeat/",
    f"matches/{MATCH}/finish/",
    f"matches/{MATCH}/replicas/",
    f"matches/{MATCH}/sandboxes/",
    f"matches/{MATCH}/sandboxes/{'0' * 64}/",
    "pilots/agent.pyz",
    "pilots/pilot.sh",
    "pilots/config/",
    "pilots/log/",
    "pilots/register/",
    "pilots/report/",
    "submit-pools/",
)
METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
#: Of a request that is refused at an address that exists.
NOTHING: Final[Mapping[str, Any]] = {}
UNREADABLE: Final[Mapping[str, Any]] = {"HTTP_CONTENT_ENCODING": "gzip", "HTTP_TRANSFER_ENCODING": "chunked"}


def moved() -> Iterator[str]:
    """Yield the old form of every address that nobody answers without a version."""
    arguments = {
        "pk": 1,
        "name": "x",
        "username": "x",
        **dict.fromkeys(("site", "ce", "queue"), "x"),
        "match_id": MATCH,
        "digest": "0" * 64,
        "code": "not_found",
        "provider": "cern",
        "submission pk": MATCH,
    }
    kept = {"version"} | {address.name for address in every_address() if is_old(address.route)}
    for address in every_address():
        if address.route.startswith(API_V1) and address.name not in kept:
            yield API + address.url(arguments).removeprefix(API_V1)


def is_old(route: str) -> bool:
    return route.startswith(API) and not route.startswith(API_V1)


@pytest.mark.parametrize("path", OF_OLD_AGENTS)
def test_an_old_address_of_agents_has_the_view_of_the_new_one(path: str) -> None:
    old, new = resolve(API + path), resolve(API_V1 + path)
    assert (old.func, old.kwargs) == (new.func, new.kwargs)
    answers = [Client().post(prefix + path, {}, content_type="application/json") for prefix in (API, API_V1)]
    said = {(answer.status_code, answer.content.replace(API_V1.encode(), API.encode())) for answer in answers}
    assert len(said) == 1


def test_no_other_old_address_is_answered() -> None:
    assert sum(is_old(address.route) for address in every_address()) == len(OF_OLD_AGENTS)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_an_old_heartbeat_renews_its_lease_in_both_ways_until_it_is_turned_off(
    sample: SampleData, pilot: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    by_the_view = create_autospec(HeartbeatView.post, side_effect=HeartbeatView.post)
    monkeypatch.setattr(HeartbeatView, "post", by_the_view)
    factories.make_job(owner=sample.alice, group=sample.prod)
    lease = lease_for(pilot)
    header = {"Authorization": f"Bearer {lease['token']}"}
    path = f"matches/{lease['match_id']}/heartbeat/"

    def beat(prefix: str) -> Any:
        return FastClient().post(f"{prefix}{path}", {"cpu_s": 1.0}, content_type=kind, headers=header)

    old, new = beat(API), beat(API_V1)
    assert (old.status_code, old.json().keys(), dict(old.headers)) == (200, new.json().keys(), dict(new.headers))
    assert by_the_view.call_count == (0 if kind == "application/json" else 2)
    before = Match.objects.values().get()
    settings.WMS_OLD_AGENT_ADDRESSES = False
    refused = beat(API)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    assert f"{API_V1}{path}" in refused.json()["detail"]
    assert Match.objects.values().get() == before
    assert beat(API_V1).status_code == 200


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("token", quick_cases([None, "an operator's", "unknown"], quick=1))
def test_every_other_old_address_names_the_new_one_and_changes_nothing(
    settings: Settings, method: str, token: str | None
) -> None:
    settings.WMS_OLD_AGENT_ADDRESSES = False
    if token == "an operator's":
        token = factories.make_token(factories.make_user(operator=True))
    client = Client(headers={"Authorization": f"Bearer {token}"} if token else {})
    before = checksums()
    paths = [*moved(), *(API + path for path in OF_OLD_AGENTS)]
    assert len(paths) > 40
    for path in paths:
        for tried in {path, path.rstrip("/")}:
            for odd in (NOTHING, UNREADABLE):
                answer = client.generic(method, tried, b"{", content_type="application/json", **odd)
                assert answer.status_code == 404, (method, tried)
                if method != "HEAD":
                    new = API_V1 + tried.removeprefix(API)
                    said = f"This address has moved: send the request to {new} instead."
                    assert of_problem(answer.json()) == (404, "not_found", said)
    assert checksums() == before


@pytest.mark.parametrize("path", ["/api/", "/api", "/api/v1", "/api/v2/jobs/", "/api/nowhere/", "/api//jobs/"])
def test_an_address_that_never_existed_gets_no_hint(path: str) -> None:
    assert "has moved" not in Client().get(path).content.decode()
    assert Client().get(path).status_code == 404


@pytest.mark.parametrize("path", ["/api/matches/", "/api/jobs/"])
def test_old_addresses_too_are_refused_over_plain_http(settings: Settings, path: str) -> None:
    settings.WMS_HTTPS = True
    answer = Client().post(path, {}, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (403, "https_required")


def test_the_schema_has_no_old_address() -> None:
    paths = Client().get("/api/v1/schema/", headers={"Accept": "application/json"}).json()["paths"]
    assert len(paths) > 40
    assert [path for path in paths if is_old(path)] == []
