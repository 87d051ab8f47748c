"""Passwords, tokens and cookies over unencrypted HTTP, and requests with a forged Host header."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from tests.cases import quick_cases
from tests.end_to_end.stack.running import manage
from tests.factories import make_token, make_user
from wms.kernel import checks

PROXY = "10.0.0.5"
GOOD_KEY = "a0b1c2d3e4f5g6h7i8j9k0l1m2n3o4p5q6r7s8t9u0v1w2x3y4z5"
PRODUCTION = {
    "WMS_EMBEDDED": "0",
    "WMS_SECRET_KEY": GOOD_KEY,
    "WMS_DATABASE_URL": "postgres://wms:secret@db.example.org:5432/wms",
    "WMS_SERVER_URL": "https://wms.example.org",
    "WMS_ALLOWED_HOSTS": "wms.example.org",
    "WMS_TRUSTED_PROXIES": "127.0.0.1",
}


def in_production(*arguments: str, **changed: str) -> "subprocess.CompletedProcess[str]":
    own = {name: value for name, value in os.environ.items() if not name.startswith("WMS_")}
    environment = {**own, **PRODUCTION, **changed}
    return subprocess.run(list(arguments), env=environment, capture_output=True, text=True, check=False)


def settings_of_production(*names: str, **changed: str) -> Any:
    show = "import json, django; django.setup(); from django.conf import settings; "
    show += f"print(json.dumps([getattr(settings, name) for name in {names!r}]))"
    done = in_production(sys.executable, "-c", show, DJANGO_SETTINGS_MODULE="wms.settings", **changed)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def https(settings: Settings) -> Settings:
    """Return the settings of production for the transport."""
    settings.WMS_HTTPS = settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_HSTS_SECONDS = 3600
    settings.WMS_TRUSTED_PROXIES = [PROXY]
    return settings


# ---- the transport ---------------------------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.usefixtures("https")
@pytest.mark.parametrize("peer", ["203.0.113.66", "127.0.0.1", ""])
def test_an_untrusted_forwarded_proto_is_ignored(peer: str) -> None:
    forged = {"REMOTE_ADDR": peer, "HTTP_X_FORWARDED_PROTO": "https"}
    page = Client().get("/accounts/login/", **forged)  # type: ignore[arg-type]
    assert (page.status_code, page.headers["Location"]) == (301, "https://testserver/accounts/login/")
    answer = Client().post("/api/v1/auth/token/", {}, content_type="application/json", **forged)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (403, "https_required")


@pytest.mark.django_db
@pytest.mark.usefixtures("https")
def test_a_token_sent_without_tls_is_refused() -> None:
    bearer = {"HTTP_AUTHORIZATION": f"Bearer {make_token(make_user())}"}
    answer = Client().get("/api/v1/auth/me/", **bearer)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == (403, "https_required")
    assert Client().get("/api/v1/auth/me/", secure=True, **bearer).status_code == 200  # type: ignore[arg-type]


@pytest.mark.django_db
@pytest.mark.usefixtures("https")
def test_the_forwarded_proto_of_a_trusted_proxy_is_used() -> None:
    by_proxy = {"REMOTE_ADDR": PROXY, "HTTP_X_FORWARDED_PROTO": "https"}
    page = Client().get("/accounts/login/", **by_proxy)  # type: ignore[arg-type]
    assert page.status_code == 200
    assert page.headers["Strict-Transport-Security"] == "max-age=3600"
    in_clear = Client().get("/accounts/login/", REMOTE_ADDR=PROXY, HTTP_X_FORWARDED_PROTO="http")
    assert in_clear.status_code == 301


# ---- a production start ----------------------------------------------------------------------------------------------


def test_deployment_checks_pass_with_production_settings(tmp_path: Path) -> None:
    done = in_production(*manage("check", "--deploy", "--fail-level", "DEBUG"), WMS_DATA_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "System check identified no issues" in done.stdout


def test_cookies_of_production_are_for_this_host_over_https_only() -> None:
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SESSION_COOKIE_HTTPONLY", "SESSION_COOKIE_SAMESITE")
    assert settings_of_production(*names) == [True, True, True, "Lax"]
    assert settings_of_production("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_COOKIE_PATH") == [
        "__Host-wms_session",
        "__Host-wms_csrf",
        "/",
    ]
    assert settings_of_production("SECURE_HSTS_SECONDS", "SECURE_SSL_REDIRECT") == [365 * 24 * 3600, True]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    quick_cases(
        [
            ({"WMS_SERVER_URL": "http://wms.example.org"}, "WMS_SERVER_URL is http://wms.example.org"),
            ({"WMS_SERVER_URL": "http://127.0.0.1:8000"}, "WMS_SERVER_URL is http://127.0.0.1:8000"),
            ({"WMS_SERVER_URL": "http://wms.example.org", "WMS_HTTPS": "false"}, "WMS_SERVER_URL is"),
            ({"WMS_ALLOWED_HOSTS": "wms.example.org,*"}, "WMS_ALLOWED_HOSTS is *"),
            ({"WMS_SECRET_KEY_FALLBACKS": "short"}, "WMS_SECRET_KEY_FALLBACKS"),
            ({"WMS_TRUSTED_PROXIES": "nginx.example.org"}, "WMS_TRUSTED_PROXIES has values that are not addresses"),
        ],
        quick=1,
    ),
)
def test_an_unsafe_production_server_does_not_start(changed: dict[str, str], sentence: str, tmp_path: Path) -> None:
    start = (sys.executable, "-c", "import wms.wsgi")
    done = in_production(*start, DJANGO_SETTINGS_MODULE="wms.settings", WMS_DATA_DIR=str(tmp_path), **changed)
    assert done.returncode == 1
    assert "The server does not start:" in done.stderr
    assert sentence in done.stderr


def test_all_on_one_machine_needs_no_tls(settings: Settings) -> None:
    settings.WMS_EMBEDDED, settings.WMS_HTTPS = False, False
    settings.WMS_SERVER_URL = "http://127.0.0.1:8000"
    assert "wms.E011" not in [error.id for error in checks.check_production()]


# ---- the listener ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changed", [{"WMS_TRUSTED_PROXIES": ""}, {"WMS_HTTPS": "false"}])
def test_up_listens_to_other_machines_only_behind_named_proxies(changed: dict[str, str], tmp_path: Path) -> None:
    done = in_production(*manage("up", "--listen", "0.0.0.0", "--data-dir", str(tmp_path / "data")), **changed)
    assert done.returncode == 1
    assert done.stderr.startswith("CommandError: 0.0.0.0 is reached from other machines, in clear")
