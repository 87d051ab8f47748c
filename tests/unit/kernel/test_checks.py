"""Settings that a production start refuses, and invalid settings."""

import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest
from pytest_django import Settings

from wms.kernel import checks

GOOD_KEY = "a0b1c2d3e4f5g6h7i8j9k0l1m2n3o4p5q6r7s8t9u0v1w2x3y4z5"
SERVER = MappingProxyType({"default": {"ENGINE": "django.db.backends.postgresql", "HOST": "db.example.org"}})


@pytest.fixture
def production(settings: Settings, tmp_path: Path) -> Settings:
    """Return settings that a production start accepts."""
    settings.WMS_EMBEDDED = False
    settings.DEBUG = False
    settings.SECRET_KEY = GOOD_KEY
    settings.WMS_DATA_DIR = tmp_path
    settings.WMS_SERVER_URL = "https://wms.example.org"
    with pytest.warns(UserWarning, match="Overriding setting DATABASES"):
        settings.DATABASES = dict(SERVER)
    return settings


def ids() -> list[str | None]:
    return [error.id for error in checks.check_production()]


@pytest.mark.usefixtures("production")
def test_a_production_start_with_a_server_and_a_long_key_is_accepted() -> None:
    assert ids() == []
    checks.refuse_unsafe_start()


def test_a_production_start_with_the_debug_flag_is_refused(production: Settings) -> None:
    production.DEBUG = True
    assert ids() == ["wms.E001"]


def test_a_production_start_with_the_default_secret_key_is_refused(production: Settings) -> None:
    production.SECRET_KEY = production.INSECURE_SECRET_KEY
    assert ids() == ["wms.E002"]


def test_the_default_secret_key_is_refused_with_a_hint_at_the_data_directory(production: Settings) -> None:
    production.SECRET_KEY = production.INSECURE_SECRET_KEY
    (error,) = checks.check_production()
    assert "set WMS_DATA_DIR to what its --data-dir names" in str(error.hint)


@pytest.mark.parametrize("key", ["short", "ab" * 40])
def test_a_production_start_with_an_easy_secret_key_is_refused(production: Settings, key: str) -> None:
    production.SECRET_KEY = key
    assert ids() == ["wms.E003"]


@pytest.mark.parametrize("where", ["HOST", "OPTIONS"])
def test_a_production_start_with_an_embedded_database_is_refused(production: Settings, where: str) -> None:
    directory = str(production.WMS_DATA_DIR / "run")
    with pytest.warns(UserWarning, match="Overriding setting DATABASES"):
        production.DATABASES = {"default": {where: directory if where == "HOST" else {"host": directory}}}
    assert ids() == ["wms.E004"]


@pytest.mark.parametrize(
    ("host", "embedded"),
    [
        ("/srv/wms/run", True),
        ("/srv/wms/../wms/run", True),
        ("/tmp/wms-abc123", True),
        ("/srv/wms2/run", False),
        ("/var/run/postgresql", False),
        ("/tmp", False),
        ("db.example.org", False),
        ("", False),
    ],
)
def test_an_embedded_database_is_recognized_by_its_sockets(host: str, embedded: bool) -> None:
    assert checks.is_embedded(host=host, data_dir=Path("/srv/wms")) is embedded


def test_an_embedded_start_is_not_checked_for_production(production: Settings) -> None:
    production.DEBUG = True
    production.SECRET_KEY = production.INSECURE_SECRET_KEY
    production.WMS_EMBEDDED = True
    assert ids() == []
    checks.refuse_unsafe_start()


def test_the_refusal_ends_the_process_and_names_every_reason(production: Settings) -> None:
    production.DEBUG = True
    production.SECRET_KEY = "short"
    with pytest.raises(SystemExit) as refusal:
        checks.refuse_unsafe_start()
    assert "WMS_DEBUG" in str(refusal.value)
    assert "WMS_SECRET_KEY" in str(refusal.value)


@pytest.mark.parametrize("value", [0, -1, -0.5])
def test_a_number_among_the_settings_must_be_positive(settings: Settings, value: float) -> None:
    settings.WMS_HEARTBEAT_S = value
    (error,) = checks.check_numbers()
    assert (error.id, error.msg) == ("wms.E007", f"WMS_HEARTBEAT_S is {value}.")


@pytest.mark.parametrize(("value", "accepted"), [(0, True), (3, True), (-1, False)])
def test_the_maximum_of_reschedules_may_be_zero(settings: Settings, value: int, accepted: bool) -> None:
    settings.WMS_MAX_RESCHEDULES = value
    assert (checks.check_numbers() == []) is accepted


def test_boolean_settings_are_not_checked_as_numbers(settings: Settings) -> None:
    settings.WMS_HTTPS = False
    assert checks.check_numbers() == []


@pytest.mark.parametrize("segments", [[], [0, 500], [-5], [500, 500], [5000, 500]])
def test_cpu_segments_must_ascend_from_above_zero(settings: Settings, segments: list[int]) -> None:
    settings.WMS_CPU_SEGMENTS_S = segments
    assert [error.id for error in checks.check_cpu_segments()] == ["wms.E005"]


@pytest.mark.parametrize("segments", [[500], [21_600, 43_200, 86_400]])
def test_any_ascending_cpu_segments_are_accepted(settings: Settings, segments: list[int]) -> None:
    settings.WMS_CPU_SEGMENTS_S = segments
    assert checks.check_cpu_segments() == []


@pytest.mark.parametrize("name", ["WMS_LEASE_FIRST_S", "WMS_LEASE_S"])
def test_a_lease_must_outlive_its_first_renewal(settings: Settings, name: str) -> None:
    shortest = settings.WMS_LEASE_GRACE_S + settings.WMS_HEARTBEAT_S
    setattr(settings, name, shortest + 1)
    assert checks.check_leases() == []
    setattr(settings, name, shortest)
    assert [error.id for error in checks.check_leases()] == ["wms.E006"]


def test_alarms_by_mail_need_a_mail_server(settings: Settings) -> None:
    settings.WMS_ALARM_EMAIL = ["ops@example.org"]
    (error,) = checks.check_mail()
    assert (error.id, error.hint) == ("wms.E014", "Name the mail server in WMS_EMAIL_URL.")
    settings.WMS_EMAIL_URL = "smtp://mail.example.org"
    settings.WMS_EMAIL_FROM = "wms@example.org"
    assert checks.check_mail() == []


@pytest.mark.parametrize("sender", ["", "wms", "wms@example.org\nBcc: all@example.org"])
def test_mail_needs_a_sender(settings: Settings, sender: str) -> None:
    settings.WMS_EMAIL_FROM = sender
    assert checks.check_mail() == []
    settings.WMS_EMAIL_URL = "smtp://mail.example.org"
    assert [error.id for error in checks.check_mail()] == ["wms.E014"]
    settings.WMS_EMAIL_FROM = "wms@example.org"
    assert checks.check_mail() == []


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("", "dummy localhost 25 '' '' False False"),
        ("smtp://localhost", "smtp localhost 25 '' '' False False"),
        ("smtp+tls://wms:p%40ss@mail.example.org:587", "smtp mail.example.org 587 'wms' 'p@ss' True False"),
        ("smtp+ssl://mail.example.org:465", "smtp mail.example.org 465 '' '' False True"),
    ],
)
def test_one_setting_names_the_mail_server(url: str, server: str) -> None:
    program = (
        "from wms.settings import *; print(EMAIL_BACKEND.split('.')[-2], EMAIL_HOST, EMAIL_PORT,"
        " repr(EMAIL_HOST_USER), repr(EMAIL_HOST_PASSWORD), EMAIL_USE_TLS, EMAIL_USE_SSL)"
    )
    environment = {**os.environ, "WMS_EMAIL_URL": url}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == server


def test_manage_py_refuses_an_unsafe_production_start() -> None:
    unsafe = {**os.environ, "WMS_EMBEDDED": "0", "WMS_DEBUG": "1"}
    unsafe.pop("WMS_SECRET_KEY", None)
    done = subprocess.run(
        [sys.executable, "manage.py", "check"], env=unsafe, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "wms.E001" in done.stderr
    assert "wms.E002" in done.stderr
