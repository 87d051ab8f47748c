"""`/metrics`: who may read it, and that it measures nothing itself."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.values import MultiProcessValue
from pytest_django import Settings

from tests.factories import make_group, make_job, make_queue, make_token, make_user, make_vo
from wms.kernel import checks, counters
from wms.operations import exposition
from wms.operations.tasks import measure

pytestmark = pytest.mark.django_db

TOKEN = "of-prometheus-and-nobody-else"
BEARER = f"Bearer {TOKEN}"


@pytest.fixture(autouse=True)
def _token(settings: Settings) -> None:
    settings.WMS_METRICS_TOKEN = TOKEN


def status(*, address: str = "127.0.0.1", authorization: str | None = BEARER, **headers: str) -> int:
    sent: dict[str, Any] = {"REMOTE_ADDR": address, **headers}
    if authorization is not None:
        sent["HTTP_AUTHORIZATION"] = authorization
    answer = Client().get("/metrics", **sent)
    assert answer.status_code == 200 or b"wms_" not in answer.content
    return answer.status_code


def samples(content: bytes) -> dict[str, float]:
    """Return {name with labels: value}."""
    families = text_string_to_metric_families(content.decode())
    return {
        f"{sample.name}{dict(sorted(sample.labels.items()))}": sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("authorization", [None, "", TOKEN, f"Basic {TOKEN}", f"{BEARER}x", "Bearer ", "Bearer é"])
def test_its_own_token_is_needed(authorization: str | None) -> None:
    assert status(authorization=authorization) == 401


def test_no_token_or_session_of_a_user_opens_it() -> None:
    operator = make_user(operator=True)
    assert status(authorization=f"Bearer {make_token(operator)}") == 401
    client = Client()
    client.force_login(operator)
    assert client.get("/metrics").status_code == 401


def test_without_a_configured_token_there_is_no_such_address(settings: Settings) -> None:
    settings.WMS_METRICS_TOKEN = ""
    assert status(authorization="Bearer ") == 404


@pytest.mark.parametrize(
    ("address", "allowed", "expected"),
    [
        ("127.0.0.1", [], 200),
        ("::1", [], 200),
        ("::ffff:127.0.0.1", [], 200),
        ("192.0.2.7", [], 404),
        ("192.0.2.7", ["192.0.2.0/24"], 200),
        ("192.0.3.7", ["192.0.2.0/24"], 404),
        ("127.0.0.1", ["192.0.2.0/24"], 200),
        ("", [], 404),
        ("", ["unix"], 200),
    ],
)
def test_it_is_for_loopback_and_the_networks_of_the_setting(
    address: str, allowed: list[str], expected: int, settings: Settings
) -> None:
    settings.WMS_METRICS_FROM = allowed
    assert status(address=address) == expected


def test_a_client_behind_a_trusted_proxy_is_not_on_loopback(settings: Settings) -> None:
    settings.WMS_TRUSTED_PROXIES = ["127.0.0.1"]
    assert status(HTTP_X_FORWARDED_FOR="192.0.2.7") == 404
    assert status() == 200


def test_it_is_read_and_never_written_to() -> None:
    assert Client().post("/metrics", HTTP_AUTHORIZATION=BEARER).status_code == 405


def test_it_answers_with_stored_values_by_one_statement() -> None:
    group = make_group(vo=make_vo(name="lhcb"))
    make_queue()
    make_job(owner=make_user(groups=[group]), group=group)
    measure()
    make_job(owner=make_user(groups=[group]), group=group)
    with CaptureQueriesContext(connection) as seen:
        answer = Client().get("/metrics", HTTP_AUTHORIZATION=BEARER)
    assert len(seen) == 1
    assert answer["Content-Type"].startswith("text/plain; version=")
    assert "no-store" in answer["Cache-Control"]
    values = samples(answer.content)
    assert values["wms_jobs{'status': 'Waiting', 'vo': 'lhcb'}"] == 1
    assert values["wms_waiting_jobs{'reason': 'pilot', 'vo': 'lhcb'}"] == 1
    assert f"{exposition.MEASURED_AT}{{}}" in values


def test_before_the_first_measurement_it_answers_without_gauges() -> None:
    assert "wms_jobs" not in Client().get("/metrics", HTTP_AUTHORIZATION=BEARER).content.decode()


def test_without_the_database_it_still_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise OperationalError("the database is away")

    monkeypatch.setattr(exposition, "latest", away)
    assert status() == 200


def test_an_address_that_is_no_network_and_a_short_token_refuse_a_start(settings: Settings) -> None:
    settings.WMS_METRICS_FROM = ["prometheus.example.org"]
    settings.WMS_METRICS_TOKEN = "short"
    assert [error.id for error in checks.check_addresses()] == ["wms.E010"]
    assert [error.id for error in checks.check_metrics_token()] == ["wms.E017"]


Requests = Callable[[str, str], float]


@pytest.fixture
def requests() -> Requests:
    """Return the number of counted requests of a route and a class of status."""
    return lambda route, status: counters.REQUESTS.labels(route, status)._value.get()


def test_requests_are_counted_by_route_and_class_of_status(requests: Requests) -> None:
    before = requests("healthz", "2xx"), requests("none", "4xx"), requests("job", "4xx")
    client = Client()
    client.get("/healthz")
    client.get("/no-such-address-of-alice")
    client.get("/api/v1/jobs/12345/")
    after = requests("healthz", "2xx"), requests("none", "4xx"), requests("job", "4xx")
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 1, 1]


def test_counters_of_the_directory_are_part_of_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(counters.DIRECTORY, str(tmp_path))
    value_class = MultiProcessValue(counters.FileNumber(tmp_path))  # type: ignore[no-untyped-call]
    counted = value_class("counter", "wms_matches", "wms_matches_total", (), (), "Leases")
    counted.inc(7)
    assert samples(Client().get("/metrics", HTTP_AUTHORIZATION=BEARER).content)["wms_matches_total{}"] == 7
