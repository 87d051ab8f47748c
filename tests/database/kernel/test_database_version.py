"""A database that a newer program has migrated is refused, with both versions."""

import re
from collections.abc import Iterator

import pytest
from celery.exceptions import Ignore
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client

from wms.celery import app
from wms.kernel import checks, clock, database_version
from wms.kernel.callers import current_command
from wms.kernel.database_version import refusal_of_database, refusal_of_running
from wms.wire.version import __version__

pytestmark = pytest.mark.django_db(transaction=True)

FUTURE = "INSERT INTO django_migrations (app, name, applied) VALUES ('kernel', '9999_future', now())"


def execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for watching in (database_version._watch, clock._clock):
        for name, value in vars(watching).items():
            monkeypatch.setattr(watching, name, value)
    yield
    execute("DELETE FROM django_migrations WHERE name ~ 'future|ancient'")
    execute(f"COMMENT ON TABLE django_migrations IS 'wms-server {__version__}'")


def test_migrate_has_recorded_its_version() -> None:
    assert database_version.recorded_version() == __version__
    assert refusal_of_database() is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ([FUTURE], f"a later build of version {__version__} migrated with kernel.9999_future"),
        (["COMMENT ON TABLE django_migrations IS 'wms-server 99.10.0'"], "version 99.10.0 migrated:"),
        (
            ["COMMENT ON TABLE django_migrations IS NULL", FUTURE],
            "a later build of version (not recorded) migrated with",
        ),
    ],
)
def test_a_newer_database_is_refused_everywhere(changes: list[str], named: str) -> None:
    for change in changes:
        execute(change)

    refusal = refusal_of_database()
    assert refusal is not None
    assert named in refusal
    assert f"This program, version {__version__}," in refusal
    with pytest.raises(CommandError, match=re.escape(refusal)):
        call_command("migrate", verbosity=0)
    with pytest.raises(checks.UnsafeStartError, match=re.escape(refusal)):
        checks.refuse_other_database()
    current_command.set("configure")
    assert [error.msg for error in checks.check_database_version()] == [refusal]
    current_command.set("")


def test_a_database_whose_new_migrations_were_unapplied_may_be_used_by_an_older_program() -> None:
    before = next(name for name in sorted(database_version._migrations_of("jobs"), reverse=True)[1:])
    try:
        call_command("migrate", "jobs", before, verbosity=0)
        assert database_version.recorded_version() is None
    finally:
        call_command("migrate", verbosity=0)
    assert database_version.recorded_version() == __version__


@pytest.mark.parametrize(("own", "is_older"), [("99.10.0rc1", False), ("99.9.0.dev2", True), ("100.0", False)])
def test_versions_are_compared_by_their_numbers(monkeypatch: pytest.MonkeyPatch, own: str, is_older: bool) -> None:
    execute("COMMENT ON TABLE django_migrations IS 'wms-server 99.10.0rc2'")
    monkeypatch.setattr(database_version, "__version__", own)
    assert ("99.10.0rc2" in (refusal_of_database() or "")) == is_older


def test_replaced_migrations_and_those_of_removed_apps_are_not_newer() -> None:
    execute("INSERT INTO django_migrations (id, app, name, applied) VALUES (-1, 'kernel', '0007_ancient', now())")
    execute("INSERT INTO django_migrations (app, name, applied) VALUES ('removed', '0001_ancient', now())")
    assert refusal_of_database() is None


def test_a_running_server_answers_503_until_the_database_is_its_own_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks.refuse_other_database()
    assert client.get("/api/v1/").status_code == 200
    execute(FUTURE)
    monkeypatch.setattr(database_version._watch, "_look_at", 0.0)
    refusal = refusal_of_running() or ""

    answer, page, ready = client.get("/api/v1/"), client.get("/log-in/"), client.get("/readyz")

    assert (answer.status_code, answer["Retry-After"]) == (503, "10")
    assert answer.json()["detail"].startswith(refusal)
    assert (page.status_code, page["Retry-After"]) == (503, "10")
    assert "kernel.9999_future" in page.content.decode()
    assert (ready.status_code, ready.json()["database"], ready.json()["detail"]) == (503, "down", refusal)
    assert client.get("/healthz").status_code == 200
    execute("DELETE FROM django_migrations WHERE name = '9999_future'")
    monkeypatch.setattr(database_version._watch, "_look_at", 0.0)
    assert client.get("/api/v1/").status_code == 200


def test_a_worker_leaves_tasks_undone_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    @app.task(name="kernel.toy", lazy=False)
    def task() -> None:
        done.append("run")

    app.tasks.pop("kernel.toy")
    task.push_request(called_directly=False)
    task()
    execute(FUTURE)
    monkeypatch.setattr(database_version._watch, "_look_at", 0.0)
    with pytest.raises(Ignore):
        task()
    assert done == ["run"]
