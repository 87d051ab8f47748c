"""Endpoints for monitoring, and error bodies of requests that no view answers."""

import errno
import re
import subprocess
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from celery import current_app
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, OperationalError, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, include, path
from kombu import Connection
from pytest_django import Settings

from tests.pace import wait_for
from tests.problems import MEDIA_TYPE, of_problem
from wms.kernel import handlers, health
from wms.kernel.db import DatabaseNow, is_database_away
from wms.kernel.log_stream import OnceAMinute
from wms.kernel.models import Liveness
from wms.kernel.tasks import report_liveness, report_sites
from wms.stack.binaries import find_valkey
from wms.stack.servers import ValkeyServer

handler400 = handlers.bad_request
handler403 = handlers.forbidden
handler404 = handlers.not_found
handler500 = handlers.server_error


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("a secret detail")


def refused(request: HttpRequest) -> HttpResponse:
    raise PermissionDenied


def counts(request: HttpRequest) -> HttpResponse:
    with transaction.atomic(), connection.cursor() as cursor:
        if timeout := request.GET.get("statement_timeout"):
            cursor.execute(f"SET LOCAL statement_timeout = {int(timeout)}")
        cursor.execute("SELECT pg_sleep(%s)", [1 if timeout else 0])
    return HttpResponse()


def fails(request: HttpRequest) -> HttpResponse:
    """Fail with the error of the database that has this code; code between it and Django gives it another type."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{request.GET['code']}'; END $$")
    except DatabaseError as error:
        if "wrapped" in request.GET:
            raise RuntimeError("something could not be read") from error
        raise
    return HttpResponse()


def fills(request: HttpRequest) -> HttpResponse:
    """Fail as where a disk is full."""
    raise RuntimeError("something could not be written") from OSError(getattr(errno, request.GET["code"]), "no")


def reads(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(len(request.body)))


urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("wms.kernel.urls")),
    path("", include("wms.portal.urls")),  # the pages of errors lead there
    *(
        path(f"{prefix}{name}/", view)
        for prefix in ("api/v1/", "")
        for name, view in {
            "broken": broken,
            "refused": refused,
            "reads": reads,
            "counts": counts,
            "fails": fails,
            "fills": fills,
        }.items()
    ),
]

pytestmark = pytest.mark.urls(__name__)


@pytest.fixture(autouse=True)
def _strict(settings: Settings) -> None:
    strict = "wms.kernel.middleware.StrictRequests"
    settings.MIDDLEWARE = [strict, *(name for name in settings.MIDDLEWARE if name != strict)]


@pytest.fixture
def visitor() -> Client:
    return Client(raise_request_exception=False)


def test_liveness_needs_no_database_or_broker(visitor: Client) -> None:
    answer = visitor.get("/healthz")  # without the mark django_db: the database would refuse
    assert (answer.status_code, answer.json()) == (200, {"status": "alive"})


@pytest.mark.django_db
def test_a_process_with_database_broker_and_beat_is_ready(visitor: Client) -> None:
    report_liveness()
    answer = visitor.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ready", "database": "up", "broker": "up", "beat": "up"},
    )
    assert "no-store" in answer.headers["Cache-Control"]


def not_ready(visitor: Client) -> set[str]:
    """Return the components that /readyz reports as down."""
    answer = visitor.get("/readyz")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    parts: dict[str, str] = answer.json()
    assert parts.pop("status") == "not ready"
    assert set(parts) == {"database", "broker", "beat"}
    return {part for part, state in parts.items() if state == "down"}


def nowhere(**options: object) -> Connection:
    return Connection("redis+socket:///nowhere/valkey.sock")


@pytest.mark.django_db
def test_without_the_broker_a_process_is_not_ready(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current_app, "connection_for_write", nowhere)
    report_liveness()
    assert not_ready(visitor) == {"broker"}


@pytest.mark.django_db
def test_with_a_full_broker_a_process_is_not_ready(
    visitor: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    valkey = ValkeyServer(program=find_valkey(), sockets=tmp_path)
    with subprocess.Popen([*valkey.command(), "--maxmemory", "1"]) as server:
        try:
            wait_for(valkey.is_ready, 10)
            monkeypatch.setattr(current_app, "connection_for_write", lambda **_options: Connection(valkey.url()))
            report_liveness()
            assert not_ready(visitor) == {"broker"}
        finally:
            server.kill()


@pytest.mark.django_db
def test_a_silent_worker_of_sites_is_named(visitor: Client) -> None:
    report_liveness()
    report_sites()
    assert "sites" not in visitor.get("/readyz").json()
    Liveness.objects.filter(name="sites").update(reported_at=DatabaseNow() - timedelta(seconds=60))
    answer = visitor.get("/readyz")
    assert (answer.status_code, answer.json()["sites"]) == (200, "down")


@pytest.mark.django_db
def test_without_the_database_a_process_is_not_ready(visitor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def down(*arguments: object) -> None:
        raise OperationalError("connection refused")

    monkeypatch.setattr(connection, "cursor", down)
    monkeypatch.setattr(connection, "close", lambda: None)
    assert not_ready(visitor) == {"database", "beat"}


def test_a_database_whose_host_answers_nothing_is_away_after_seconds() -> None:
    """As one that drops the packets of an open connection, too, which no test can do without root."""
    options = connection.get_connection_params()
    assert 0 < options["connect_timeout"] <= 5
    silence_s = options["keepalives_idle"] + options["keepalives_count"] * options["keepalives_interval"]
    assert max(silence_s, options["tcp_user_timeout"] / 1000) <= 20


@pytest.mark.django_db
def test_without_beat_a_process_is_not_ready(visitor: Client) -> None:
    assert not_ready(visitor) == {"beat"}
    report_liveness()
    Liveness.objects.update(reported_at=DatabaseNow() - timedelta(seconds=60))
    assert not_ready(visitor) == {"beat"}
    report_liveness()
    assert visitor.get("/readyz").status_code == 200


@pytest.mark.parametrize("address", ["/healthz", "/readyz"])
def test_health_endpoints_accept_reads_only(visitor: Client, address: str) -> None:
    assert visitor.post(address).status_code == 405


@pytest.mark.django_db  # a refusal is in the security log
@pytest.mark.parametrize(
    ("address", "status", "code"),
    [
        ("/api/v1/nowhere/", 404, "not_found"),
        ("/api/v1/refused/", 403, "forbidden"),
        ("/api/v1/broken/", 500, "internal_error"),
        ("/api/v1/reads/?a=%00", 400, "bad_request"),
        ("/api/v1/rea%00ds/", 400, "bad_request"),
    ],
)
def test_below_api_every_answer_is_json_in_one_shape(visitor: Client, address: str, status: int, code: str) -> None:
    answer = visitor.get(address)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == MEDIA_TYPE
    assert of_problem(answer.json())[:2] == (status, code)
    assert "errors" not in answer.json()
    assert "secret" not in answer.json()["detail"]


@pytest.mark.django_db(transaction=True)
def test_a_database_outage_is_503_with_retry_after(
    visitor: Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    connection.close()
    with monkeypatch.context() as patched:
        patched.setitem(connection.settings_dict, "HOST", str(tmp_path))
        answer = visitor.get("/api/v1/counts/")
        page = visitor.get("/counts/")
    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert of_problem(answer.json())[:2] == (503, "unavailable")
    assert (page.status_code, page["Retry-After"]) == (503, "10")
    assert "The database is away at present" in page.content.decode()
    (record,) = [each for each in caplog.records if each.exc_info and each.getMessage().endswith("/api/v1/counts/")]
    OnceAMinute(stream := StringIO()).handle(record)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("outage.database: ")
    # An error of a statement is one of ours.
    assert visitor.get("/api/v1/counts/?statement_timeout=1").status_code == 500
    assert visitor.get("/api/v1/counts/").status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["", "&wrapped"])
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("53100", 503), ("53200", 503), ("53300", 503), ("53400", 503), ("57P01", 503), ("57P03", 503), ("08006", 503),
        ("25006", 503), ("25P03", 503), ("40001", 503), ("40P01", 503), ("58030", 503),
        ("57014", 500), ("23505", 500), ("42P01", 500), ("P0001", 500),
    ],
)  # fmt: skip
def test_a_database_that_cannot_work_is_503_and_a_statement_that_fails_500(
    visitor: Client, code: str, status: int, how: str
) -> None:
    assert visitor.get(f"/api/v1/fails/?code={code}{how}").status_code == status
    assert visitor.get(f"/fails/?code={code}{how}").status_code == status


@pytest.mark.parametrize(("code", "status"), [("ENOSPC", 503), ("EDQUOT", 503), ("EROFS", 503), ("EPERM", 500)])
def test_a_full_disk_is_503(visitor: Client, code: str, status: int) -> None:
    answer, page = visitor.get(f"/api/v1/fills/?code={code}"), visitor.get(f"/fills/?code={code}")
    assert answer.status_code == page.status_code == status
    if status == 503:
        assert answer["Retry-After"] == page["Retry-After"] == "10"
        assert of_problem(answer.json())[:2] == (503, "no_room")


@pytest.mark.django_db(transaction=True)
def test_a_database_that_was_full_is_503_whatever_fails_because_of_it() -> None:
    """As the next statement of a transaction whose first failure was not noticed."""

    def fail() -> None:
        with connection.cursor() as cursor:
            try:
                cursor.execute("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '53100'; END $$")
            except DatabaseError:
                cursor.execute("SELECT 1")

    with pytest.raises(DatabaseError) as failure, transaction.atomic():
        fail()
    assert is_database_away(failure.value)


@pytest.mark.django_db(transaction=True)
def test_a_database_that_may_only_be_read_is_not_ready(visitor: Client) -> None:
    report_liveness()
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_read_only = on")
    try:
        assert not_ready(visitor) == {"database"}
    finally:
        connection.close()


@pytest.mark.django_db(transaction=True)
def test_a_database_that_ends_while_readiness_looks_at_it_is_down(
    visitor: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended() -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr(health, "refusal_of_database", ended)
    report_liveness()
    assert not_ready(visitor) == {"database"}


@pytest.mark.django_db
def test_readiness_writes_a_temporary_file() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL work_mem = '64kB'")
        cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {health.WRITES}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert re.search(r"temp .*written=\d", plan), plan


@pytest.mark.django_db  # a refusal is in the security log
@pytest.mark.parametrize(
    ("address", "status"), [("/nowhere/", 404), ("/refused/", 403), ("/broken/", 500), ("/reads/?a=%00", 400)]
)
def test_elsewhere_the_answers_are_pages(visitor: Client, address: str, status: int) -> None:
    answer = visitor.get(address)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/html")


def test_a_body_beyond_the_limit_is_413(visitor: Client, settings: Settings) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    answer = visitor.post("/api/v1/reads/", b"x" * 11, content_type="application/json")
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_an_unknown_host_header_is_400(visitor: Client) -> None:
    answer = visitor.get("/api/v1/reads/", HTTP_HOST="evil.example.org")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT", "DELETE"])
def test_a_writing_request_without_the_last_slash_is_not_redirected(visitor: Client, method: str) -> None:
    answer = visitor.generic(method, "/api/v1/reads")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "/api/v1/reads/" in answer.json()["detail"]


def test_a_reading_request_without_the_last_slash_is_redirected(visitor: Client) -> None:
    answer = visitor.get("/api/v1/reads")
    assert (answer.status_code, answer.headers["Location"]) == (301, "/api/v1/reads/")
