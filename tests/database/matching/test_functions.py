"""The functions of the database are those of ``matching/sql``, from whatever state it was migrated (ADR 50)."""

import pytest
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.state import ProjectState

from matching.migrations._functions import InstallFunctions, digest_of, texts
from taskqueues.models import Limit
from tests.factories import make_job, make_vo
from wms.jobs.domain.lifecycle import JobStatus


def installing() -> dict[str, InstallFunctions]:
    """Return the operations that install functions, by migration."""
    loader = MigrationLoader(None)
    return {
        f"{app}.{name}": operation
        for (app, name), migration in sorted(loader.disk_migrations.items())
        for operation in migration.operations
        if isinstance(operation, InstallFunctions)
    }


def test_one_migration_installs_the_functions_by_their_present_text() -> None:
    names = list(installing())
    assert len(names) == 1, f"{', '.join(names)} install functions: keep InstallFunctions only in the newest (ADR 50)."
    (operation,) = installing().values()
    digest = digest_of(texts())
    assert operation.digest == digest, (
        f"matching/sql has changed since {names[0]}: write a migration with InstallFunctions(digest={digest!r}), "
        "and take this operation out of the other; matching/migrations/_functions.py says how."
    )


def test_a_comment_is_no_change() -> None:
    assert digest_of(["SELECT 1 -- one\n", "+ 1;"]) == digest_of(["SELECT\n    1 + 1;"]) != digest_of(["SELECT 1 + 2;"])


@pytest.mark.django_db
def test_the_database_has_the_functions_and_triggers_of_the_texts() -> None:
    """No other migration has replaced any."""
    before = installed()
    install()
    assert before == installed()
    assert {"wms_claim", "wms_heartbeat", "wms_limit_changes", "limit_changes"} <= before.keys()


@pytest.mark.django_db
def test_a_limit_from_before_the_triggers_is_counted() -> None:
    """As one that was moved to its table by a migration, before functions are installed at last."""
    job = make_job(status=JobStatus.RUNNING)
    counted = Limit.objects.create(vo=make_vo(), running=3)
    with connection.cursor() as cursor:
        # Foreign keys are checked now: no table is altered while that is still to be done.
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; ALTER TABLE taskqueues_limit DISABLE TRIGGER limit_changes")
        limit = Limit.objects.create(vo=job.vo, running=5)
    parts = list(counted.slots.values_list("pk", flat=True))
    assert not limit.slots.exists()
    install()
    assert sum(limit.slots.values_list("used", flat=True)) == 1
    assert sum(limit.slots.values_list("part", flat=True)) == 5
    assert list(counted.slots.values_list("pk", flat=True)) == parts


def install() -> None:
    (operation,) = installing().values()
    with connection.schema_editor() as editor:
        operation.database_forwards("matching", editor, ProjectState(), ProjectState())


def installed() -> dict[str, list[str]]:
    """Return the definitions of the functions and triggers of the project, by name."""
    with connection.cursor() as cursor:
        cursor.execute("""
            SELECT name, array_agg(definition ORDER BY definition)
              FROM (SELECT proname AS name, pg_get_functiondef(oid) AS definition FROM pg_proc
                     WHERE proname LIKE 'wms\\_%'
                    UNION ALL
                    SELECT tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal) AS its
             GROUP BY name
        """)
        return dict(cursor.fetchall())
